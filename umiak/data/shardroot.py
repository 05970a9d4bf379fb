"""The directory that shards go to: one writer at a time, and what must be deleted there before others can be cut."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from umiak.data.shards import MANIFEST
from umiak.errors import InputError, RetryError

STATE = ".split.json"
LOCK = ".split.lock"
log = logging.getLogger("umiak.data")


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """Keep others out. The lock file is removed by whoever has it, so a lock on one that was removed is worth nothing."""
    path = root / LOCK
    while True:
        with path.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RetryError(
                    f"another umiak data split is writing to {root}; wait for it or choose another directory"
                ) from None
            if not _is_at(file, path):
                continue
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def _is_at(file: TextIO, path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    return False


def in_the_way(root: Path, overwrite: bool) -> list[Path]:
    """What was cut before and must go; an InputError if it may not. Only directories numbered like shards ever count."""
    found = [path for path in root.glob("*/data") if path.parent.name.isdigit()]
    found += [path for path in root.glob("data/*") if path.name.isdigit()]
    if (found or (root / MANIFEST).exists()) and not overwrite:
        raise InputError(f"{root} already holds shards; choose another directory or replace them with --overwrite")
    return [*(root / name for name in (MANIFEST, STATE) if (root / name).exists()), *sorted(found)]


def replace_shards(root: Path, paths: Sequence[Path]) -> None:
    """Delete what a user wants replaced. They are told before and after: somebody may miss it."""
    if paths:
        shards = sum(path.is_dir() for path in paths)
        log.warning("--overwrite: deleting the %d shards that are in %s", shards, root)
        delete_shards(paths)
        log.warning("deleted %d shards from %s", shards, root)


def delete_shards(paths: Sequence[Path]) -> None:
    """In this order: the manifest goes first, so that no half of a set counts as whole."""
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
            with contextlib.suppress(OSError):
                path.parent.rmdir()
        else:
            path.unlink(missing_ok=True)
