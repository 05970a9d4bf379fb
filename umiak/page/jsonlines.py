"""A file of JSON lines that grows while it is read. Damaged lines are passed over and counted; half a line is waited for."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

CHUNK = 1 << 20
LONGEST = 8 << 20
CHECKED = 256
"""So many bytes before the place where reading stopped tell whether it is still the same file."""

Object = dict[str, Any]


@dataclass
class Place:
    """How far a file was read. `inode` and `mark` tell whether what was read is still there."""

    inode: int = 0
    offset: int = 0
    damaged: int = 0
    mark: str = ""

    def to_json(self) -> Object:
        return asdict(self)


def is_same(file: BinaryIO, place: Place) -> bool:
    """Whether a file still begins with what was read of it. One that was cut or written anew does not."""
    status = os.fstat(file.fileno())
    return status.st_ino == place.inode and status.st_size >= place.offset and _mark(file, place.offset) == place.mark


def new_lines(file: BinaryIO, place: Place) -> Iterator[list[Object]]:
    """What has come since, in batches; `place` moves on with each, so that whoever stops can continue there."""
    place.inode = os.fstat(file.fileno()).st_ino
    file.seek(place.offset)
    rest = b""
    while data := file.read(CHUNK):
        if len(rest) > LONGEST:
            # No line of ours: what comes until its end is another damaged one.
            place.offset += len(rest)
            place.damaged += 1
            rest = b""
        whole, newline, rest = (rest + data).rpartition(b"\n")
        if newline:
            found, damaged = parse(whole.split(b"\n"))
            place.offset += len(whole) + 1
            place.damaged += damaged
            place.mark = _mark(file, place.offset)
            yield found
    place.mark = _mark(file, place.offset)


def parse(lines: list[bytes]) -> tuple[list[Object], int]:
    """The objects in lines, and how many lines hold none. All at once is three times as fast as one by one."""
    try:
        found = json.loads(b"[" + b",".join(lines) + b"]")
        if len(found) == len(lines) and all(type(each) is dict for each in found):
            return found, 0
    except (ValueError, RecursionError):
        pass
    found = []
    for line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.append(value)
    return found, sum(bool(line.strip()) for line in lines) - len(found)


def _mark(file: BinaryIO, offset: int) -> str:
    here = file.tell()
    file.seek(max(0, offset - CHECKED))
    data = file.read(min(offset, CHECKED))
    file.seek(here)
    return hashlib.sha256(data).hexdigest()[:16]
