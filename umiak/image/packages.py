"""Python packages for a machine that is not this one: uv picks wheels by their tags, checks their hashes and unpacks them.

Nothing is built from source, so that no compiler and no machine of that kind is needed.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from umiak import extras
from umiak.errors import InputError, RetryError
from umiak.image import locks
from umiak.image.layers import Entry, Layer, Store

# glibc 2.28: every Debian and Ubuntu image with Python 3.11 has it or a newer one.
PLATFORMS = {"amd64": "x86_64-manylinux_2_28", "arm64": "aarch64-manylinux_2_28"}
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
LOCK = Path(__file__).with_name("runtime.lock")
# A package this large has a layer of its own: layers travel side by side, and only the missing ones.
LARGE = 64 << 20
PARALLEL = 2


@dataclass(frozen=True)
class Target:
    """What packages are for: an architecture as images name it, and Python's minor version."""

    architecture: str
    minor: int

    @property
    def site(self) -> str:
        return f"opt/umiak/lib/python3.{self.minor}/site-packages"


@dataclass(frozen=True)
class Torch:
    """Where torch comes from: the lock (built for CUDA), or an index with CPU builds, perhaps with the hash of its file."""

    source: str = field(default_factory=lambda: CPU_INDEX)
    sha256: str = ""


def install(target: Target, lock: str, torch: Torch | None, directory: Path) -> None:
    """Everything the lock names, into a directory. Without `torch` the lock is taken as it is."""
    if torch is None or torch.source == "lock":
        _uv(target, directory, _file(directory, "lock", lock), "--require-hashes")
        return
    rest, version = locks.without_torch(lock)
    _uv(target, directory, _file(directory, "lock", rest), "--require-hashes")
    try:
        wanted = locks.torch_requirement(version, torch.sha256)
    except ValueError as error:
        raise InputError(f"--torch-sha256: {error}") from None
    if torch.sha256:
        wanted = wanted.replace(f"=={version}", f"=={_version_on(target, torch.source, version, directory)}", 1)
    hashes = ["--require-hashes"] if torch.sha256 else []
    _uv(target, directory, _file(directory, "torch", wanted), "--default-index", torch.source, *hashes)


def _version_on(target: Target, source: str, version: str, directory: Path) -> str:
    """What an index calls it, as 2.13.0+cpu: uv compares hashes only of a version that is named in full."""
    asked = _file(directory, "asked", f"torch=={version}\n")
    words = [
        "pip",
        "compile",
        str(asked),
        "--no-deps",
        "--quiet",
        "--no-header",
        "--no-annotate",
        "--only-binary",
        ":all:",
    ]
    words += ["--no-emit-index-url", "--default-index", source, *_for(target)]
    return _run(words, f"find torch {version} on {source}").partition("==")[2].strip()


def resolve(target: Target, requirements: Path, runtime: str) -> str:
    """A project's own requirements as a lock with hashes, in which what the runtime has keeps its version."""
    constraints = _file(requirements.parent, "constraints", runtime, hidden=True)
    try:
        words = ["pip", "compile", str(requirements), "--constraints", str(constraints), "--generate-hashes", "--quiet"]
        words += ["--no-header", "--no-annotate", "--no-emit-index-url", "--only-binary", ":all:", *_for(target)]
        return _run(words, f"resolve {requirements}")
    finally:
        constraints.unlink()


def layers(target: Target, directory: Path, store: Store) -> list[Layer]:
    """What is installed in a directory as layers: the large packages one each, all others in the last."""
    groups = _groups(directory)
    with ThreadPoolExecutor(PARALLEL) as pool:
        return list(pool.map(lambda group: store.write(entries(target, directory, group[1]), group[0]), groups.items()))


def can_compile(target: Target) -> bool:
    return sys.version_info[:2] == (3, target.minor)


def compile_all(target: Target, directory: Path, place: str) -> bool:
    """Bytecode beside every file, as the image's Python would write it; False if this Python is another version.

    It is looked up without a comparison of times, which are not those of the build.
    """
    if not can_compile(target):
        return False
    words = [sys.executable, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash"]
    words += ["-s", str(directory), "-p", f"/{place}", str(directory)]
    # Some packages carry files that are templates, or of another Python: those have no bytecode.
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return True


def _file(directory: Path, name: str, text: str, hidden: bool = False) -> Path:
    path = (
        directory.parent / f"{directory.name}.{name}.txt" if not hidden else directory / f".umiak-{name}-{os.getpid()}"
    )
    path.write_text(text)
    return path


def _uv(target: Target, directory: Path, lock: Path, *more: str) -> None:
    words = ["pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--target", str(directory)]
    words += ["--python-platform", PLATFORMS[target.architecture], "--python-version", f"3.{target.minor}"]
    _run(
        [*words, *more, "-r", str(lock)],
        f"get the packages for linux/{target.architecture} and Python 3.{target.minor}",
    )


def _for(target: Target) -> list[str]:
    return ["--python-platform", PLATFORMS[target.architecture], "--python-version", f"3.{target.minor}"]


def _run(words: list[str], doing: str) -> str:
    done = subprocess.run([sys.executable, "-m", "uv", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        said = " ".join(done.stderr.split())[-1500:]
        if "No module named uv" in said:
            raise InputError(f"umiak image needs uv: {extras.install('image')}")
        # uv exits with 1 for what it cannot solve and with 2 for what failed on the way, as a network.
        kind = InputError if done.returncode == 1 else RetryError
        raise kind(f"uv could not {doing}: {said}")
    return done.stdout


def _groups(directory: Path) -> dict[str, list[str]]:
    """Files by the layer they belong to: the name of a large package, or all the others."""
    owner: dict[str, str] = {}
    sizes: dict[str, int] = {}
    for record in sorted(directory.glob("*.dist-info/RECORD")):
        package = record.parent.name.partition("-")[0]
        with record.open(newline="") as file:
            for name, *_ in csv.reader(file):
                owner[name] = package
    groups: dict[str, list[str]] = {}
    for name in _files(directory):
        package = owner.get(name) or owner.get(_source(name), "")
        sizes[package] = sizes.get(package, 0) + (directory / name).lstat().st_size
        groups.setdefault(package, []).append(name)
    small = [package for package in groups if not package or sizes[package] < LARGE]
    large = {package: groups[package] for package in sorted(groups) if package not in small}
    return {**large, "packages": sorted(name for package in small for name in groups[package])}


def _source(name: str) -> str:
    """The source of a file of bytecode: a/__pycache__/b.cpython-311.pyc belongs to a/b.py."""
    path = Path(name)
    return str(path.parent.parent / f"{path.name.partition('.')[0]}.py") if path.parent.name == "__pycache__" else name


def _files(directory: Path) -> Iterator[str]:
    for parent, _, names in os.walk(directory):
        for name in names:
            yield str(Path(parent, name).relative_to(directory))


def entries(target: Target, directory: Path, names: Iterable[str] | None = None) -> Iterator[Entry]:
    """Installed files, all or those named, where the image has them."""
    for name in _files(directory) if names is None else names:
        path = directory / name
        # Scripts have this machine's interpreter in their first line, and nobody calls them in the image.
        if name == ".lock" or name.startswith("bin/"):
            continue
        mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
        yield Entry(f"{target.site}/{name}", path, mode)
