"""A parameter in a snapshot, in the byte format of 2016: int32 0, uint32 4, uint64 count, then float32, little-endian."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from umiak.errors import DamagedError, InputError
from umiak.files import CHUNK, atomic
from umiak.rundir.layout import MODEL
from umiak.rundir.reader import Reader
from umiak.rundir.tensorfile import Piece

HEADER = struct.Struct("<iIQ")


def write_parameter(path: Path, count: int, chunks: Iterable[np.ndarray]) -> Piece:
    header = HEADER.pack(0, 4, count)
    checksum = zlib.crc32(header)
    with atomic(path) as file:
        file.write(header)
        for chunk in chunks:
            if chunk.size:
                data = np.ascontiguousarray(chunk, "<f4").data.cast("B")
                file.write(data)
                checksum = zlib.crc32(data, checksum)
    return Piece(path.name, HEADER.size + 4 * count, checksum)


def listed(model: Mapping[str, Any], path: Path) -> Piece | None:
    """What a snapshot's model.json says of one of its files; nothing before format 2."""
    described = model.get("files", {}).get(path.name)
    return Piece.of({"name": path.name, **described}, path.with_name(MODEL)) if described else None


def check_parameter(path: Path, count: int) -> None:
    """Refuse a file that does not hold `count` values. Only its beginning is read."""
    with Reader(path) as file:
        _check_header(file, count)


def read_parts(path: Path, count: int, piece: Piece | None, line: int = 1) -> Iterator[np.ndarray]:
    """The values in order, in parts that hold whole lines of so many; a part is overwritten by the next.

    With a piece, its checksum must be the one that was written. That is known only after the last part.
    """
    with Reader(path) as file:
        checksum = zlib.crc32(_check_header(file, count))
        most = max(1, CHUNK // (4 * line)) * line
        room = np.empty(4 * min(most, count), np.uint8)
        for start in range(0, count, most):
            part = file.take(4 * min(most, count - start), room)
            if piece is not None:
                checksum = zlib.crc32(part.data, checksum)
            yield part.view("<f4")
    if piece is not None and checksum != piece.crc32:
        raise DamagedError(f"{path} is damaged, or was changed: its checksum is not the one that was written")


def read_parameter(path: Path, count: int, piece: Piece | None = None) -> np.ndarray:
    values, at = np.empty(count, np.float32), 0
    for part in read_parts(path, count, piece):
        values[at : at + part.size] = part
        at += part.size
    return values


def map_parameter(path: Path, count: int, piece: Piece | None) -> np.ndarray:
    """The values, mapped into memory: only what is used is held. With a piece, they are read once to be verified."""
    if piece is None:
        check_parameter(path, count)
    else:
        for _ in read_parts(path, count, piece):
            pass
    return np.memmap(path, "<f4", "r", HEADER.size) if count else np.empty(0, np.float32)


def _check_header(file: Reader, count: int) -> bytes:
    """Read it and return it. Another number of values is no damage: it is another model's."""
    path = file.path
    if file.size < HEADER.size:
        raise DamagedError(f"{path} is too short for a parameter file")
    header = file.take(HEADER.size).tobytes()
    version, size, stored = HEADER.unpack(header)
    if (version, size) != (0, 4):
        raise DamagedError(f"{path} is not a parameter file: version {version}, value size {size}")
    if stored != count:
        raise InputError(f"{path} holds {stored} values where the model has {count}: it is a snapshot of another model")
    if file.size != HEADER.size + 4 * count:
        length = HEADER.size + 4 * count
        raise DamagedError(f"{path} is {file.size} bytes where {count} values take {length}: it is damaged")
    return header
