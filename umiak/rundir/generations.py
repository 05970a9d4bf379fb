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

from umiak.errors import ReplacedError, StorageError
from umiak.files import make_directory, names_in, patiently, read_bytes, sync_directory, temporary_name, write_json
from umiak.rundir import layout

KEPT = 16
"""Files of generations that are left for people to look at; older ones are removed."""


def newest(out: Path) -> int:
    """The newest generation that was taken; -1 if there was none."""
    return max(_taken(out), default=-1)


def owner_of(out: Path, generation: int) -> str:
    """Who took a generation; empty if nobody has, or so long ago that its file was removed."""
    path = _file(out, generation)
    try:
        return str(json.loads(read_bytes(path))["owner"])
    except FileNotFoundError:
        return ""
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(f"cannot tell who took generation {generation}: {path} is not what was written") from error


def was_replaced(out: Path, owner: str) -> bool:
    """Whether this owner had the directory, and another has taken it since."""
    owners = [owner_of(out, number) for number in sorted(_taken(out))]
    return owner in owners and owners[-1] != owner


def seize(out: Path, owner: str, after: int = -1) -> int:
    """Take the next generation, a later one than `after`, from whoever has the directory now."""
    number = max(newest(out), after) + 1
    take(out, owner, number)
    return number


def take(out: Path, owner: str, number: int) -> None:
    """Take this very generation. A ReplacedError if another has it, or a later one."""
    check(out, number)
    path = _file(out, number)
    make_directory(path.parent)
    draft = temporary_name(path)
    content = {"owner": owner, "mark": secrets.token_hex(8)}
    write_json(draft, content)

    def create() -> None:
        """Give a complete file its name, unless the name is taken."""
        try:
            os.link(draft, path)
        except FileExistsError:
            # An error may have come after the deed, and an answer may get lost: then it is ours.
            if json.loads(path.read_bytes()) != content:
                raise ReplacedError(f"generation {number} of {out} was taken by another process") from None
        sync_directory(path.parent)

    try:
        patiently(create, path, "write")
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
    # One that slept between its look and its creation finds that others were faster.
    check(out, number)
    for old in sorted(_taken(out))[:-KEPT]:
        with contextlib.suppress(OSError):
            _file(out, old).unlink(missing_ok=True)


def check(out: Path, generation: int) -> None:
    """A ReplacedError if a later generation was taken: what follows must not be done."""
    directory = out / layout.GENERATIONS
    # An NFS client may answer from a list of names that is a minute old; after a change of its own it asks again.
    with contextlib.suppress(FileNotFoundError):
        patiently(lambda: os.utime(directory), directory, "touch")
    if (last := newest(out)) > generation:
        raise ReplacedError(
            f"another process has taken over {out}: this one has generation {generation}, and {last} was taken since"
        )


def _file(out: Path, generation: int) -> Path:
    return out / layout.GENERATIONS / f"{generation:010d}"


def _taken(out: Path) -> list[int]:
    return [int(name) for name in names_in(out / layout.GENERATIONS) if name.isdigit()]
