"""Who may write into a run directory. Every attempt takes a generation: a file in OUT/generations, created exclusively.

Only one can create a file of a given name, so a generation has one owner, and the newest one is the owner's of the directory.
A lock would not do: a machine that has fallen silent keeps its locks, and its pod is replaced elsewhere. Therefore whoever is
about to commit, truncate or delete looks here first, and ends if a later generation was taken.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from pathlib import Path

from umiak.errors import RetryError
from umiak.files import sync_directory

DIRECTORY = "generations"
KEPT = 16
"""Files of generations that are left for people to look at; older ones are removed."""


def newest(out: Path) -> int:
    """The newest generation that was taken; -1 if there was none."""
    return max(_taken(out / DIRECTORY), default=-1)


def take(out: Path, owner: str, after: int = -1) -> int:
    """Take the next generation, a later one than `after`. A RetryError if another takes one at the same time."""
    directory = out / DIRECTORY
    draft = directory / f".{secrets.token_hex(8)}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        number = max(newest(out), after) + 1
        with draft.open("x") as file:
            file.write(json.dumps({"owner": owner}) + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            _create(draft, directory / f"{number:010d}")
        finally:
            draft.unlink(missing_ok=True)
        sync_directory(directory)
    except OSError as error:
        raise RetryError(f"cannot take a generation in {directory}: {error.strerror or error}") from error
    # One that slept between its look and its creation finds that others were faster.
    check(out, number)
    for old in sorted(_taken(directory))[:-KEPT]:
        (directory / f"{old:010d}").unlink(missing_ok=True)
    return number


def check(out: Path, generation: int) -> None:
    """A RetryError if a later generation was taken: what follows must not be done."""
    directory = out / DIRECTORY
    try:
        # An NFS client may answer from a list of names that is a minute old; after a change of its own it asks again.
        os.utime(directory)
        last = newest(out)
    except FileNotFoundError:
        return  # nobody ever took one
    except OSError as error:
        raise RetryError(f"cannot tell who owns {out}: {directory}: {error.strerror or error}") from error
    if last > generation:
        raise RetryError(
            f"another process has taken over {out}: this one has generation {generation}, and {last} was taken since"
        )


def _create(draft: Path, path: Path) -> None:
    """Give a complete file its name, unless the name is taken."""
    try:
        os.link(draft, path)
    except FileExistsError:
        # The answer of an NFS server may get lost, and the repeated request then fails although the first succeeded.
        if draft.stat().st_nlink != 2:
            raise RetryError(f"{path} was taken by another process at the same moment") from None


def _taken(directory: Path) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        return [int(path.name) for path in directory.iterdir() if path.name.isdigit()]
    return []
