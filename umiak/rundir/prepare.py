"""What must become of an output directory before a run can use it: decided first, then done and told. Does without torch."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from umiak.errors import InputError, StorageError
from umiak.files import disk_error, exists, make_directory, names_in, patiently
from umiak.rundir import checkpoint, layout, snapshot
from umiak.spec.settings import Settings

NAMED = 6
"""How many entries a line about them names."""


@dataclass(frozen=True)
class Preparation:
    """What is in the way of a run. `because` says which wish of the user removes it."""

    out: Path
    delete: tuple[Path, ...] = ()
    set_aside: tuple[Path, ...] = ()
    because: str = ""


def decide(settings: Settings) -> Preparation:
    """What has to go, or an InputError: an output directory that holds a run is used only as the user said. Changes nothing."""
    out = settings.save_dir
    names = names_in(out)
    holds = (
        layout.METRICS in names or any(name.startswith(layout.PASS) for name in names) or bool(checkpoint.stored(out))
    )
    goes_on = settings.start_pass > 0 and settings.init_model_path is None
    if settings.resume_round is not None and (settings.overwrite or not settings.resume):
        checkpoint.select(out, settings.resume_round)
        raise InputError(f"--resume_round={settings.resume_round} goes with --resume, and not with --overwrite")
    if holds and settings.overwrite:
        sources = (settings.init_from, settings.init_model_path, out if goes_on else None)
        if any(source is not None and source.resolve().is_relative_to(out.resolve()) for source in sources):
            raise InputError(f"--overwrite would remove from {out} what this run starts from: choose another --out")
        theirs = tuple(path for path in (out / name for name in names) if layout.is_output(path))
        return Preparation(out, delete=theirs, because="--overwrite")
    if goes_on and not settings.resume:
        source = snapshot.find(out, settings.start_pass - 1)
        # Those of the run before would be taken for this one's.
        earlier = (out / layout.CHECKPOINTS,) if layout.CHECKPOINTS in names else ()
        if earlier:
            snapshot.Contents(source).verify()
        return Preparation(out, delete=earlier, because=f"--start_pass={settings.start_pass}")
    if holds and not settings.resume:
        raise InputError(
            f"{out} already holds a run: continue it with --resume, replace it with --overwrite, or choose another --out"
        )
    if settings.resume and checkpoint.select(out, settings.resume_round) is None:
        raise InputError(f"{out} holds no checkpoint to resume from: start without --resume")
    if settings.resume_round is not None:
        newer = tuple(checkpoint.newer_than(out, settings.resume_round))
        return Preparation(out, set_aside=newer, because=f"--resume_round={settings.resume_round}")
    return Preparation(out)


def carry_out(preparation: Preparation, say: Callable[[str], None]) -> None:
    """Delete and set aside what was decided. A user is told before and after: it may be what they did not mean."""
    out, because = preparation.out, preparation.because
    if preparation.delete:
        what = _listed(preparation.delete)
        say(f"{because}: deleting from {out}: {what}")
        for path in preparation.delete:
            delete(path)
        say(f"deleted from {out}: {what}")
    if preparation.set_aside:
        say(f"{because}: setting aside newer checkpoints of {out}: {_listed(preparation.set_aside)}")
        moved = checkpoint.set_aside(preparation.set_aside)
        say(f"set aside in {out / layout.CHECKPOINTS}: {_listed(moved)}; delete them when nobody needs them")


def delete(path: Path) -> None:
    """A file, or a directory with all that is in it."""

    def remove() -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    try:
        patiently(remove, path, "delete")
    except FileNotFoundError as error:
        if exists(path):
            raise StorageError(f"cannot delete {path}: {error.filename} disappeared meanwhile; try again") from error


def make(out: Path) -> None:
    """See that the directory is there and can be written, before anything starts."""

    def probe() -> None:
        trial = out / ".writable"
        trial.write_bytes(b"")
        trial.unlink(missing_ok=True)

    try:
        make_directory(out, "write to")
        patiently(probe, out, "write to")
    except InputError as error:
        raise InputError(f"{error}; choose another --out") from None
    except FileNotFoundError as error:
        raise disk_error(error, out, "write to") from None


def _listed(paths: Sequence[Path]) -> str:
    names = [path.name for path in paths]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
