"""The wheel in an environment of its own, from which the source tree cannot be reached.

torch alone is 4.8 GB with its CUDA libraries, so packages are not copied: the environment links those of the one that runs
the tests, and of these only what the wheel's metadata asks for. What is no dependency cannot be imported there. Kernels that
are compiled already are taken along: they would take the processor for half a minute.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
HERE = Path(sysconfig.get_path("purelib"))


@dataclass(frozen=True)
class Installed:
    """An environment. Its commands run with no setting of the process that runs the tests that could lead to the source tree."""

    python: Path

    def run(self, *words: str | Path, cwd: Path, code: int = 0, seconds: float = 240, **more: str) -> str:
        """Run `umiak …` (or python, if the first word is that); its output, or the errors if it should fail."""
        program = [self.python] if words[0] == "python" else [self.python.with_name("umiak")]
        rest = words[1:] if words[0] in ("python", "umiak") else words
        done = subprocess.run(
            [*program, *rest],
            cwd=cwd,
            env={**self.environment(), **more},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == code, f"exit code {done.returncode}, expected {code}\n{done.stdout}\n{done.stderr}"
        return done.stderr if code else done.stdout

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        path = f"{self.python.parent}:/usr/local/bin:/usr/bin:/bin"
        return kept | {"PATH": path}


def wheel(directory: Path) -> Path:
    """Build it as `make wheel` does."""
    _uv("build", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", directory, ROOT)
    return next(directory.glob("*.whl"))


def install(file: Path, directory: Path, extras: tuple[str, ...] = ()) -> Installed:
    """A new environment with the wheel, its dependencies, and those of the extras."""
    venv.create(directory, symlinks=True)
    python = directory / "bin" / "python"
    _uv("pip", "install", "--no-deps", "--python", python, file)
    site = next(directory.glob("lib/python*/site-packages"))
    for name in _closure(Requirement(f"umiak[{','.join(extras)}]" if extras else "umiak")):
        for top in _tops(name):
            if not (site / top).exists():
                (site / top).symlink_to(HERE / top)
    _take_kernels(site)
    return Installed(python)


def _uv(*words: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "uv", *words, "--quiet", "--offline"], check=True)


def _take_kernels(site: Path) -> None:
    """What numba has compiled of the same sources. It knows a source by its time and size."""
    for index in (ROOT / "umiak").rglob("__pycache__/*.nbi"):
        source = index.parents[1] / f"{index.name.partition('.')[0]}.py"
        cache = site / index.parent.relative_to(ROOT)
        cache.mkdir(exist_ok=True)
        for file in index.parent.glob(f"{index.stem}.*"):
            shutil.copy2(file, cache)
        times = source.stat()
        os.utime(cache.parent / source.name, ns=(times.st_atime_ns, times.st_mtime_ns))


def _closure(wanted: Requirement) -> set[str]:
    """The distributions that one needs, by their metadata. (That of umiak is the same here as in the wheel.)"""
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    todo = [wanted]
    while todo:
        requirement = todo.pop()
        for extra in ("", *requirement.extras):
            key = (canonicalize_name(requirement.name), extra)
            if key in seen:
                continue
            seen.add(key)
            found.add(key[0])
            for text in distribution(requirement.name).requires or ():
                needs = Requirement(text)
                if needs.marker is None or needs.marker.evaluate({"extra": extra}):
                    todo.append(needs)
    return found - {"umiak"}


def _tops(name: str) -> set[str]:
    """The files and directories of site-packages that are of a distribution."""
    files = distribution(name).files or []
    return {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}
