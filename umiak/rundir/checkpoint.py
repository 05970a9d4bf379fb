"""Checkpoints of a run: which is the newest whole one, how one is committed, and what must match to resume from it.

The pieces are written by the services (umiak/pserver/pieces.py); a checkpoint exists once its manifest is renamed into place.
A run that ever had one never begins again by itself: a volume that fails, or shows less than it holds, is not an empty one.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import secrets
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from umiak.errors import DamagedError, InputError, StorageError
from umiak.files import atomic, exists, names_in, patiently, read_bytes, sync_directory, write_json
from umiak.rundir import layout
from umiak.rundir.layout import MANIFEST

KEEP = 2
DAMAGED = "manifest.damaged"
COMMITTED = "committed"
"""A file beside the checkpoints, written with the first: there was one."""
ASIDE = "aside-"
FORMAT = 2
log = logging.getLogger("umiak.trainer")


@dataclass(frozen=True)
class Manifest:
    """What commits a checkpoint. `identity` is what a run that resumes must have in common with the one that wrote it."""

    round: int
    pass_id: int
    samples: int
    identity: dict[str, Any]
    machine: dict[str, Any]
    pieces: list[dict[str, Any]]
    format: int = FORMAT


@dataclass(frozen=True, order=True)
class Stored:
    """A directory of pieces, by its name: round-ROUND-GENERATION, or round-ROUND if umiak 0.1.0 wrote it."""

    round: int
    generation: int
    path: Path

    @property
    def is_old(self) -> bool:
        return self.generation < 0


def directory_for(out: Path, round_id: int, generation: int) -> Path:
    """Of this generation alone: an earlier owner of the run may still be writing into its own."""
    return out / layout.CHECKPOINTS / f"round-{round_id:010d}-{generation:04d}"


def stored(out: Path) -> list[Stored]:
    """All directories of pieces, committed or not, oldest first."""
    return _parsed(out / layout.CHECKPOINTS, names_in(out / layout.CHECKPOINTS))


def _parsed(directory: Path, names: Iterable[str]) -> list[Stored]:
    found = [(re.fullmatch(r"round-(\d+)(?:-(\d+))?", name), directory / name) for name in names]
    return sorted(Stored(int(match[1]), int(match[2] or -1), path) for match, path in found if match)


def committed(out: Path) -> list[Stored]:
    """All checkpoints that a run can resume from, oldest first."""
    return [each for each in stored(out) if exists(each.path / MANIFEST)]


def select(out: Path, round_id: int | None = None) -> Path | None:
    """The checkpoint to resume from: the newest, or that of a round. None only if none was ever committed."""
    try:
        return _select(out, round_id)
    except StorageError as error:
        raise StorageError(f"{error}; {advice(out)}") from error


def _select(out: Path, round_id: int | None) -> Path | None:
    # Only those asked for are looked at: a newer one may be just what cannot be read.
    asked_for = [each for each in stored(out) if round_id is None or each.round == round_id]
    found = [each for each in asked_for if exists(each.path / MANIFEST)]
    if found:
        return found[-1].path
    if round_id is not None:
        raise InputError(f"{out} has no checkpoint of round {round_id}: it has {_rounds(committed(out))}")
    if was_committed(out):
        raise InputError(
            f"{out} has had checkpoints, and none of them is whole: {_state(out)}. To begin again, choose another --out or "
            "replace this run with --overwrite; --init_model_path begins with the model of a snapshot"
        )
    return None


def was_committed(out: Path) -> bool:
    """Whether there ever was a checkpoint. Version 0.1.0 left no mark: any directory of its may have been one."""
    if exists(out / layout.CHECKPOINTS / COMMITTED):
        return True
    return any(each.is_old or _holds_manifest(each.path) for each in stored(out))


def commit(directory: Path, manifest: Manifest) -> None:
    """Make the checkpoint valid, then remove all but the newest two."""
    write_json(directory / MANIFEST, asdict(manifest))
    _mark(directory.parent)
    for old in committed(directory.parent.parent)[:-KEEP]:
        _remove(old.path)


def mark_damaged(directory: Path) -> None:
    """From now on the checkpoint before it counts as the newest."""

    def rename() -> None:
        with contextlib.suppress(FileNotFoundError):  # done before
            (directory / MANIFEST).rename(directory / DAMAGED)
        sync_directory(directory)

    log.warning("%s is damaged: %s becomes %s, and the checkpoint before it counts", directory, MANIFEST, DAMAGED)
    patiently(rename, directory / MANIFEST, "rename")


def newer_than(out: Path, round_id: int) -> list[Path]:
    """The checkpoints that stand between a run and that of an earlier round, which there must be."""
    select(out, round_id)
    return [each.path for each in stored(out) if each.round > round_id and _may_count(each.path)]


def set_aside(paths: Iterable[Path]) -> list[Path]:
    """Give checkpoints a name by which nobody finds them; nothing is deleted. Their new names."""
    moved = []
    for path in paths:
        target = path.with_name(f"{ASIDE}{path.name}")
        if exists(target):
            target = path.with_name(f"{target.name}-{secrets.token_hex(3)}")

        def rename(path: Path = path, target: Path = target) -> None:
            with contextlib.suppress(FileNotFoundError):  # done before
                path.rename(target)
            sync_directory(target.parent)

        patiently(rename, path, "rename")
        moved.append(target)
    return moved


def remove_unfinished(out: Path) -> None:
    """Remove what a writer left that was killed before its manifest was written.

    A directory of version 0.1.0 is the only sign that there was a checkpoint, until there is another.
    """
    if committed(out):
        _mark(out / layout.CHECKPOINTS)
    marked = exists(out / layout.CHECKPOINTS / COMMITTED)
    for each in stored(out):
        if not _holds_manifest(each.path) and (marked or not each.is_old):
            _remove(each.path)


def advice(out: Path, unreadable: Path | None = None) -> str:
    """What a user can do about a checkpoint, the newest or this one, that cannot be read just now. Waits for nothing."""
    directory = out / layout.CHECKPOINTS
    try:
        there = [
            each for each in _parsed(directory, [path.name for path in directory.iterdir()]) if _may_count(each.path)
        ]
    except OSError:
        there = []
    newest = unreadable or (there[-1].path if there else directory)
    older = [each for each in there if each.path.name < newest.name]
    if there and not older:
        return "nothing was changed, and there is no older checkpoint"
    which = f"of round {older[-1].round} " if older else ""
    number = older[-1].round if older else "N"
    return (
        f"nothing was changed; to resume from the older checkpoint {which}instead, add --resume --resume_round {number} to "
        f"umiak train (in a cluster, --resume_round={number} to flags in job.yaml)"
    )


def _may_count(directory: Path) -> bool:
    """Whether it is a checkpoint, as far as can be seen at once."""
    try:
        (directory / MANIFEST).stat()
    except OSError as error:
        return not isinstance(error, FileNotFoundError)
    return True


def read(directory: Path) -> Manifest:
    path = directory / MANIFEST
    try:
        value = json.loads(read_bytes(path))
        if value["format"] != FORMAT:
            raise InputError(f"{path} has format {value['format']}; this version reads {FORMAT}")
        return Manifest(**value)
    except FileNotFoundError:
        raise InputError(f"{directory} is not a checkpoint: it has no {MANIFEST}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{path} is damaged: {error}") from None


def find(path: Path) -> Path:
    """The checkpoint a user means: its own directory, or the newest one of an output directory."""
    if exists(path / MANIFEST):
        return path
    found = select(path)
    if found is None:
        raise InputError(f"{path} is neither a checkpoint nor an output directory that holds one")
    return found


SERVICES = "the number of services"


def check_identity(directory: Path, ours: dict[str, Any], exact: bool) -> None:
    """Refuse to resume with a different config or number of workers, naming the first difference.

    Where rounds are `exact`, it does not matter how many services hold the model: they read each other's pieces.
    """
    theirs = read(directory).identity
    for key, want in ours.items():
        if theirs.get(key) != want and not (exact and key == SERVICES):
            raise InputError(
                f"cannot resume from {directory}: it was written with {key} {_short(theirs.get(key))} and this run has "
                f"{_short(want)}; use the same, or start a new run with --init-from {directory}"
            )


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 60 else text[:57] + "…"


def _rounds(found: Sequence[Stored]) -> str:
    return "those of " + ", ".join(str(each.round) for each in found) if found else "none"


def _state(out: Path) -> str:
    """What there is in place of checkpoints, for an error."""
    found = [f"{each.path.name} ({_short_state(each.path)})" for each in stored(out)]
    return ", ".join(found) or f"{out / 'checkpoints'} holds no pieces any more"


def _short_state(path: Path) -> str:
    return "damaged" if exists(path / DAMAGED) else "without a manifest"


def _holds_manifest(path: Path) -> bool:
    return any(name.startswith("manifest.") for name in names_in(path))


def _mark(checkpoints: Path) -> None:
    if not exists(checkpoints / COMMITTED):
        with atomic(checkpoints / COMMITTED):
            pass


def _remove(directory: Path) -> None:
    """The manifest first: what is half removed must not be taken for a checkpoint."""

    def unlink() -> None:
        (directory / MANIFEST).unlink(missing_ok=True)

    with contextlib.suppress(FileNotFoundError, StorageError):  # another try comes with the next checkpoint
        patiently(unlink, directory / MANIFEST, "remove")
        shutil.rmtree(directory, ignore_errors=True)
