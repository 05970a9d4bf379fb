"""Which directories a parameter server touches. Trainers name directories to it, and whoever has the token may be a trainer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from umiak.errors import InputError
from umiak.paths import within


@dataclass(frozen=True)
class Reach:
    """Everything is read and written below `root`; the `sources` of a new run are read only. Links are followed first."""

    root: Path
    sources: tuple[Path, ...] = ()

    def writable(self, directory: object) -> Path:
        return self._checked(directory, (self.root,))

    def readable(self, directory: object) -> Path:
        return self._checked(directory, (self.root, *self.sources))

    def _checked(self, directory: object, roots: tuple[Path, ...]) -> Path:
        if not isinstance(directory, str) or "\0" in directory:
            raise InputError(f"{directory!r} is not a directory")
        if not within(Path(directory), roots):
            raise InputError(
                f"{directory} is outside {self.root.resolve()}, and this server touches nothing else: start servers with the "
                "--save_dir of their trainers, or one above it"
            )
        return Path(directory)
