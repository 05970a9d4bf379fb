"""Whose an output directory is: job.json names the job and the coordinator that write there now, and its generation.

A lock would not do: a machine that has fallen silent keeps its locks, and its pod is replaced elsewhere. So the newest claim
counts, and whoever finds that it is no longer the owner ends.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from umiak.errors import InputError, RetryError
from umiak.files import write_json
from umiak.spec.settings import Settings
from umiak.trainer import checkpoint, output

log = logging.getLogger("umiak.worker")
FILE = "job.json"
LOOK_SECONDS = 2.0
HANDOVER_SECONDS = 3.0
"""Longer than an owner takes to notice that it is none any more."""
STALE_SECONDS = 8.0
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


def read(out: Path) -> Entry | None:
    try:
        return Entry(**json.loads((out / FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def is_done(out: Path, uid: str) -> bool:
    entry = read(out)
    return entry is not None and entry.uid == uid and entry.done


class Claim:
    """An output directory that is ours until another claims it."""

    def __init__(self, out: Path, entry: Entry) -> None:
        self.out, self.entry = out, entry
        self._looked = time.monotonic()

    @property
    def generation(self) -> int:
        return self.entry.generation

    @property
    def done(self) -> bool:
        return self.entry.done

    def note(self, generation: int | None = None, released: bool = False, done: bool = False) -> None:
        """Write down what has changed."""
        entry = self.entry
        number = entry.generation if generation is None else generation
        self.entry = replace(entry, generation=number, released=released, done=entry.done or done)
        write_json(self.out / FILE, asdict(self.entry))

    def look(self) -> None:
        """Show now and then that we are here; a RetryError if another has taken over."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        found = read(self.out)
        if found is not None and found.owner != self.entry.owner:
            raise RetryError(f"another pod has taken over {self.out}: this one was given up for lost")
        try:
            os.utime(self.out / FILE)
        except OSError as error:
            raise RetryError(f"lost {self.out}: {error.strerror}") from None


def take(settings: Settings, uid: str, sleep: Callable[[float], None] = time.sleep) -> Claim:
    """Claim the output directory for a job, and make it ready: a run of the same job goes on, others are refused."""
    out = settings.save_dir
    before = read(out)
    if before is not None and before.uid != uid and not before.released:
        _wait_for_other(out, before, sleep)
    ours = before is not None and before.uid == uid
    if not ours:
        # A checkpoint of an earlier job is gone on from; whether it fits is checked when it is loaded.
        goes_on = checkpoint.select(out) is not None and not settings.overwrite
        output.carry_out(output.decide(replace(settings, resume=goes_on)), log.warning)
        output.make(out)
    generation = before.generation + 1 if before is not None else 0
    claim = Claim(out, Entry(uid, secrets.token_hex(8), generation, done=ours and before is not None and before.done))
    claim.note()
    if ours and before is not None and not before.released:
        sleep(HANDOVER_SECONDS)
    checkpoint.remove_unfinished(out)
    return claim


def _wait_for_other(out: Path, entry: Entry, sleep: Callable[[float], None]) -> None:
    """Another job was here and has not said that it left: it is gone if it shows no sign of life for a while."""
    path = out / FILE
    begun = sign = time.monotonic()
    seen = path.stat().st_mtime_ns
    while time.monotonic() - sign < STALE_SECONDS:
        if time.monotonic() - begun > LEAVE_SECONDS:
            raise InputError(
                f"another job ({entry.uid}) is training into {out}: wait for its end, or choose another output"
            )
        sleep(0.5)
        found = read(out)
        if found is None or found.released:
            return
        if path.stat().st_mtime_ns != seen:
            seen, sign = path.stat().st_mtime_ns, time.monotonic()
