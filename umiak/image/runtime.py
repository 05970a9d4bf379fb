"""The layers of the runtime on top of a base: the packages of the lock, then umiak itself. What docker/Dockerfile makes."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from umiak.image import kernels, packages
from umiak.image.base import Base
from umiak.image.layers import Entry, Layer, Store, key
from umiak.image.packages import Target, Torch

PACKAGE = Path(__file__).parents[1]
LAUNCHER = Path(__file__).with_name("launcher.sh")
UID = 1000
# A change of how layers are made gives them other names in the cache.
FORMAT = 1

# What a later layer must know of the image.
PYTHON_LABEL, LOCK_LABEL = "dev.umiak.python", "dev.umiak.lock"

Say = Callable[[str], None]


def build(base: Base, target: Target, torch: Torch, store: Store, say: Say) -> list[Layer]:
    lock = packages.LOCK.read_text()
    inputs = [FORMAT, target.architecture, target.minor, lock, torch.source, torch.sha256, packages.can_compile(target)]
    own = [_digest(), base.directory, base.accounts, kernels.is_possible(target)]
    large, thin = key("packages", *inputs), key("umiak", *inputs, *own)
    with tempfile.TemporaryDirectory(dir=store.root, prefix="build-") as work:
        installed = _Installed(target, lock, torch, Path(work) / "packages", say)

        def libraries() -> list[Layer]:
            directory = installed.directory()
            say("compressing the packages")
            return packages.layers(target, directory, store)

        def code() -> list[Layer]:
            with _code(target, Path(work)) as directory:
                entries = [*_files(directory), *_frame(base, target)]
                if kernels.is_possible(target):
                    say("compiling the kernels")
                    cache = Path(work) / "numba"
                    cache.mkdir()
                    entries += kernels.compiled(target, installed.directory(), directory, cache)
                return [store.write(entries, "umiak")]

        if not kernels.is_possible(target):
            say(
                f"no compiled kernels in the image: they need Linux on {target.architecture} with Python 3.{target.minor}; "
                "a worker starts about 20 s later"
            )
        return [*store.layers(large, libraries), *store.layers(thin, code)]


def config(base: Base, target: Target, layers: list[Layer]) -> dict[str, Any]:
    """The image's config: the base's, and how a worker runs in it."""
    inherited = dict(base.config.get("config") or {})
    own = {
        "PATH": f"/opt/umiak/bin:{_variables(inherited).get('PATH', '/usr/local/bin:/usr/bin:/bin')}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/tmp",
        "NUMBA_CACHE_DIR": "/tmp/warm/numba",
        "MPLCONFIGDIR": "/tmp/warm/matplotlib",
        **kernels.environment(target.architecture),
    }
    return {
        "architecture": target.architecture,
        "os": "linux",
        "config": {
            **{name: value for name, value in inherited.items() if name not in ("Cmd", "Healthcheck")},
            "Env": [f"{name}={value}" for name, value in {**_variables(inherited), **own}.items()],
            "User": f"{UID}:{UID}",
            "WorkingDir": "/work",
            "Entrypoint": ["umiak"],
            "Labels": {
                "org.opencontainers.image.base.name": base.image.name,
                "org.opencontainers.image.base.digest": base.image.digest,
                PYTHON_LABEL: f"3.{target.minor}",
                LOCK_LABEL: lock_digest(),
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [layer.diff for layer in (*base.layers, *layers)]},
    }


def _variables(inherited: dict[str, Any]) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in inherited.get("Env") or [])


class _Installed:
    """The packages, unpacked when somebody first needs them: both layers may come from the cache."""

    def __init__(self, target: Target, lock: str, torch: Torch, place: Path, say: Say) -> None:
        self._target, self._lock, self._torch, self._place, self._say = target, lock, torch, place, say

    def directory(self) -> Path:
        if not self._place.exists():
            self._say(f"getting the packages for linux/{self._target.architecture} and Python 3.{self._target.minor}")
            packages.install(self._target, self._lock, self._torch, self._place)
            if not packages.compile_all(self._target, self._place, self._target.site):
                self._say(
                    f"no bytecode in the image: this is not Python 3.{self._target.minor}; a worker starts some seconds later"
                )
        return self._place


@contextmanager
def _code(target: Target, work: Path) -> Iterator[Path]:
    """A copy of umiak's sources with their bytecode."""
    directory = work / "code"
    shutil.copytree(PACKAGE, directory / "umiak", ignore=shutil.ignore_patterns("__pycache__"))
    packages.compile_all(target, directory, kernels.CODE)
    yield directory


def _files(directory: Path) -> Iterator[Entry]:
    for path in directory.rglob("*"):
        if path.is_file():
            yield Entry(f"{kernels.CODE}/{path.relative_to(directory)}", path)


def _frame(base: Base, target: Target) -> Iterator[Entry]:
    """A virtual environment around the packages, the command, and somebody to run it."""
    python = f"{base.directory}/python3.{target.minor}"
    yield Entry("opt/umiak/pyvenv.cfg", f"home = {base.directory}\ninclude-system-site-packages = false\n".encode())
    for name in ("python", "python3", f"python3.{target.minor}"):
        yield Entry(f"opt/umiak/bin/{name}", link=python)
    yield Entry("opt/umiak/bin/umiak", LAUNCHER, 0o755)
    yield Entry(f"{target.site}/umiak-code.pth", f"/{kernels.CODE}\n".encode())
    yield Entry("work", mode=0o755, owner=UID, is_directory=True)
    for name, line in (
        ("etc/passwd", f"umiak:x:{UID}:{UID}::/tmp:/bin/sh\n"),
        ("etc/group", f"umiak:x:{UID}:\n"),
    ):
        yield Entry(name, (base.accounts.get(name, "") + line).encode())


def lock_digest() -> str:
    return hashlib.sha256(packages.LOCK.read_bytes()).hexdigest()


def _digest() -> str:
    """Of all files of the package: a change of any makes a new layer."""
    total = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            total.update(f"{path.relative_to(PACKAGE)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()
