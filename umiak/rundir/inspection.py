"""What people want to know of checkpoints: which there are, what is in one, whether it is as it was written. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from umiak.errors import DamagedError, InputError
from umiak.files import exists, patiently
from umiak.rundir import checkpoint
from umiak.rundir.checkpoint import Manifest, Stored
from umiak.rundir.layout import MANIFEST
from umiak.rundir.tensorfile import Piece, verify


@dataclass(frozen=True)
class Found:
    """A checkpoint as it lies on the disk. `problem` says why no run resumes from it."""

    path: Path
    round: int
    generation: int | None
    """None if umiak 0.1.0 wrote it."""
    time: float
    """When it was committed, in seconds since 1970; 0 if it was not."""
    manifest: Manifest | None
    problem: str = ""

    @property
    def bytes(self) -> int:
        return sum(piece["bytes"] for piece in self.manifest.pieces) if self.manifest else 0


def listing(out: Path) -> list[Found]:
    """All checkpoints of an output directory, oldest first."""
    found = [_found(each) for each in checkpoint.stored(out)]
    if not found:
        raise InputError(f"{out} holds no checkpoints: name the output directory of a run")
    return found


def chosen(path: Path, round_id: int | None) -> Found:
    """The one a user means: its own directory, or in an output directory that of a round, or the newest whole one."""
    inside = checkpoint.stored(path.parent.parent)
    for each in inside:
        if each.path.name == path.name and round_id is None:
            return _found(each)
    selected = checkpoint.select(path, round_id)
    if selected is None:
        raise InputError(f"{path} is neither a checkpoint nor an output directory that holds one")
    return next(_found(each) for each in checkpoint.stored(path) if each.path == selected)


def pieces_of(found: Found) -> list[Piece]:
    """The files that its manifest names; an error for one that cannot be resumed from."""
    if found.manifest is None:
        raise InputError(f"{found.path} cannot be resumed from: {found.problem}")
    return [Piece.of(piece, found.path / MANIFEST) for piece in found.manifest.pieces]


def damage(found: Found) -> Iterator[tuple[Piece, str]]:
    """Read every file and compare it with what was written; each with what is wrong with it, or an empty text."""
    for piece in pieces_of(found):
        try:
            verify(found.path / piece.name, piece)
        except DamagedError as error:
            yield piece, str(error)
        else:
            yield piece, ""


def _found(each: Stored) -> Found:
    generation = None if each.is_old else each.generation
    path = each.path / MANIFEST
    try:
        manifest = checkpoint.read(each.path)
        time = patiently(lambda: path.stat().st_mtime, path)
    except (InputError, FileNotFoundError):
        damaged = exists(each.path / checkpoint.DAMAGED)
        problem = "found damaged before" if damaged else "not finished, or being written"
        return Found(each.path, each.round, generation, 0.0, None, problem)
    except DamagedError as error:
        return Found(each.path, each.round, generation, 0.0, None, str(error))
    return Found(each.path, each.round, generation, time, manifest)
