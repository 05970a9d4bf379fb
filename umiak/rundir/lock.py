"""One job at a time in an output directory: a lock that all processes of a job hold."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from umiak.errors import InputError
from umiak.files import disk_error, patiently
from umiak.rundir import layout

LEFTOVER_SECONDS = 10.0


@contextlib.contextmanager
def locked(out: Path) -> Iterator[None]:
    """Keep others out of an output directory. Every process of the job holds the lock: it outlives a killed launcher by as
    long as they do, and a new one waits for that."""
    path = out / layout.LOCK
    try:
        lock = patiently(lambda: path.open("a+"), path, "write")
    except FileNotFoundError as error:
        raise disk_error(error, path) from None
    try:
        deadline = time.monotonic() + LEFTOVER_SECONDS
        while not patiently(lambda: _try(lock), path, "lock"):
            lock.seek(0)
            launcher = lock.read().strip()
            if _runs(launcher) or time.monotonic() > deadline:
                raise InputError(
                    f"another umiak (process {launcher or 'unknown'}) is training into {out}: "
                    "wait for it, or choose another --out"
                )
            time.sleep(0.1)
        patiently(lambda: _sign(lock), path, "write")
        yield
    finally:
        with contextlib.suppress(OSError):  # it is let go all the same
            lock.close()


def _sign(lock: TextIO) -> None:
    lock.seek(0)
    lock.truncate()
    lock.write(str(os.getpid()))
    lock.flush()


def _try(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _runs(pid: str) -> bool:
    try:
        with contextlib.suppress(PermissionError):
            os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    return True
