"""Whose an output directory is: job.json names the job that trains there, its coordinator, and who has which worker's place.

Only the owner of the newest generation (generations.py) writes it, and looks whether it still is before every change.
Everything here may hang with the volume; umiak/pod/keeper.py calls it in a thread of its own.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from umiak.errors import InputError, ReplacedError, StorageError
from umiak.files import patiently, read_bytes, write_json
from umiak.rundir import checkpoint, generations, layout, prepare
from umiak.rundir.places import Places
from umiak.spec.settings import Settings

log = logging.getLogger("umiak.worker")
LOOK_SECONDS = 2.0
HANDOVER_SECONDS = 3.0
"""Longer than an owner takes to notice that it is none any more."""
STALE_SECONDS = 90.0
"""Another job's owner that shows no sign of life for so long is gone. A volume may hang for a minute; that is no end."""
LEAVE_SECONDS = 150.0
"""A job that was just deleted may still be writing its last checkpoint."""


@dataclass(frozen=True)
class Entry:
    """The content of job.json. `released`: its owner has left by itself; `done`: the job has trained to the end."""

    uid: str
    owner: str
    generation: int
    released: bool = False
    done: bool = False
    places: Places = field(default_factory=Places)

    def to_json(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in ("uid", "owner", "generation", "released", "done")}
        return {**plain, **self.places.to_json()}

    @staticmethod
    def of(value: Any) -> Entry:
        flags = bool(value["released"]), bool(value["done"])
        return Entry(str(value["uid"]), str(value["owner"]), int(value["generation"]), *flags, Places.of(value))


def read(out: Path) -> Entry | None:
    """None only if there is no job.json. One that cannot be read is no permission to take the directory."""
    path = out / layout.JOB
    try:
        return Entry.of(json.loads(read_bytes(path)))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StorageError(
            f"{path} was not written by a job, so it is unknown who trains into {out}: if nobody does, remove that file"
        ) from None


def is_done(out: Path, uid: str) -> bool:
    entry = read(out)
    return entry is not None and entry.uid == uid and entry.done


class Lease:
    """An output directory that is ours until another takes a later generation."""

    def __init__(self, out: Path, entry: Entry) -> None:
        self.out, self.entry = out, entry

    @property
    def generation(self) -> int:
        return self.entry.generation

    @property
    def done(self) -> bool:
        return self.entry.done

    def advance(self, generation: int) -> None:
        """Take the next generation, for another attempt."""
        generations.take(self.out, self.entry.owner, generation)
        self.entry = replace(self.entry, generation=generation)

    def write(self, **changes: Any) -> None:
        """Write down what has changed."""
        generations.check(self.out, self.generation)
        self.entry = replace(self.entry, **changes)
        write_json(self.out / layout.JOB, self.entry.to_json())

    def look(self) -> None:
        """Show that we are here; a ReplacedError if another has taken over.

        What an NFS client reads of an opened file is never old, unlike the list of generations.
        """
        path = self.out / layout.JOB
        found = read(self.out)
        if found is None or found.owner != self.entry.owner:
            # Another owner's name, without a later generation, comes from one that was replaced and woke while it wrote.
            self.write()
        else:
            with contextlib.suppress(FileNotFoundError):  # the next look writes it again
                patiently(lambda: os.utime(path), path, "touch")


def take(settings: Settings, uid: str, incarnation: str, sleep: Callable[[float], None] = time.sleep) -> Lease:
    """Take the output directory for a job, and make it ready: the same job continues its run, others are refused."""
    out = settings.save_dir
    before = read(out)
    if before is not None and before.uid != uid and not before.released:
        before = _wait_for_other(out, before, sleep)
    ours = before is not None and before.uid == uid
    places = before.places if before is not None and ours else Places()
    places.check(0, incarnation)
    if generations.was_replaced(out, incarnation):
        raise ReplacedError(f"another pod has taken over {out}: this one was believed lost")
    places.take(0, incarnation)
    preparation = None if ours else _preparation(settings)
    prepare.make(out)
    generation = generations.seize(out, incarnation, before.generation if before is not None else -1)
    done = ours and before is not None and before.done
    lease = Lease(out, Entry(uid, incarnation, generation, done=done, places=places))
    if preparation is not None:
        # Before job.json says that the directory is ours: one that is killed meanwhile decides anew.
        prepare.carry_out(preparation, log.warning)
    lease.write()
    if ours and before is not None and not before.released and before.owner != incarnation:
        sleep(HANDOVER_SECONDS)
    checkpoint.remove_unfinished(out)
    return lease


def _preparation(settings: Settings) -> prepare.Preparation:
    """The job resumes from a checkpoint of an earlier one; whether it fits is checked when it is loaded."""
    goes_on = not settings.overwrite and checkpoint.select(settings.save_dir, settings.resume_round) is not None
    found = prepare.decide(replace(settings, resume=goes_on))
    return replace(found, delete=tuple(path for entry in found.delete for path in _closed(entry)))


def _closed(entry: Path) -> list[Path]:
    """What of an earlier run's output nobody is writing to: pods have opened some logs of their own there already."""
    if entry.name.startswith(layout.NODE):
        return [path for name in (layout.TRAINER_LOG, layout.SERVER_LOG) if (path := entry / name).exists()]
    return [] if entry.name == layout.JOB_LOG else [entry]


def _wait_for_other(out: Path, entry: Entry, sleep: Callable[[float], None]) -> Entry | None:
    """Another job was here and has not said that it left: it is gone if it shows no sign of life for a while."""
    begun = sign = time.monotonic()
    seen = -1
    while True:
        asked = time.monotonic()
        found = read(out)
        if found is None or found.released:
            return found
        now = time.monotonic()
        if (changed := _changed(out)) != seen or now - asked > LOOK_SECONDS:
            # Where the volume was slow for us, silence says nothing about others.
            seen, sign = changed, now
        if now - sign > STALE_SECONDS:
            return found
        if now - begun > LEAVE_SECONDS:
            raise InputError(
                f"another job ({entry.uid}) is training into {out}: wait until it ends, or choose another output"
            )
        sleep(0.5)


def _changed(out: Path) -> int:
    path = out / layout.JOB
    try:
        return patiently(lambda: path.stat().st_mtime_ns, path)
    except FileNotFoundError:
        return -1
