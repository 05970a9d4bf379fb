"""Checkpoints of a run: which is the newest whole one, how one is committed, and what must match to go on from it.

The pieces are written by the services (umiak/pserver/pieces.py); a checkpoint exists once its manifest is renamed into place.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from umiak.errors import InputError
from umiak.files import write_json

KEEP = 2
MANIFEST = "manifest.json"
FORMAT = 2


@dataclass(frozen=True)
class Manifest:
    """What commits a checkpoint. `identity` is what a run that goes on must have in common with the one that wrote it."""

    round: int
    pass_id: int
    samples: int
    identity: dict[str, Any]
    machine: dict[str, Any]
    pieces: list[dict[str, Any]]
    format: int = FORMAT


def directory_for(out: Path, round_id: int) -> Path:
    return out / "checkpoints" / f"round-{round_id:010d}"


def commit(directory: Path, manifest: Manifest) -> None:
    """Make the checkpoint valid, then remove all but the newest two."""
    write_json(directory / MANIFEST, asdict(manifest))
    for old in sorted(_all(directory.parent), reverse=True)[KEEP:]:
        (old / MANIFEST).unlink()
        shutil.rmtree(old, ignore_errors=True)


def newest(out: Path) -> Path | None:
    """The newest committed checkpoint of a run, if any."""
    return max(_all(out / "checkpoints"), default=None)


def mark_damaged(directory: Path) -> None:
    """From now on the checkpoint before it counts as the newest."""
    (directory / MANIFEST).rename(directory / "manifest.damaged")


def remove_unfinished(out: Path) -> None:
    """Remove what a writer left that was killed before its manifest was written."""
    for directory in (out / "checkpoints").glob("round-*"):
        if not any(directory.glob("manifest.*")):
            shutil.rmtree(directory, ignore_errors=True)


def read(directory: Path) -> Manifest:
    path = directory / MANIFEST
    try:
        value = json.loads(path.read_text())
        if value["format"] != FORMAT:
            raise InputError(f"{path} has format {value['format']}; this version reads {FORMAT}")
        return Manifest(**value)
    except FileNotFoundError:
        raise InputError(f"{directory} is not a checkpoint: it has no {MANIFEST}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def find(path: Path) -> Path:
    """The checkpoint a user means: its own directory, or the newest one of an output directory."""
    if (path / MANIFEST).exists():
        return path
    found = newest(path)
    if found is None:
        raise InputError(f"{path} is neither a checkpoint nor an output directory that holds one")
    return found


def check_identity(directory: Path, ours: dict[str, Any]) -> None:
    """Refuse to go on with another config or number of workers, naming the first difference."""
    theirs = read(directory).identity
    for key, want in ours.items():
        if theirs.get(key) != want:
            raise InputError(
                f"cannot resume from {directory}: it was written with {key} {_short(theirs.get(key))} and this run has "
                f"{_short(want)}; use the same, or start a new run with --init-from {directory}"
            )


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 60 else text[:57] + "…"


def _all(checkpoints: Path) -> list[Path]:
    return [path.parent for path in checkpoints.glob(f"round-*/{MANIFEST}")]
