"""Arrays in files, streamed to disk with their checksum and back.

The format is safetensors, so any tool reads these files; they are written here in chunks because a table can be larger
than the memory that is left.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from umiak.errors import DamagedError
from umiak.files import CHUNK, atomic
from umiak.rundir.reader import Reader

_FLOATS: dict[str, type[np.generic]] = {"F64": np.float64, "F32": np.float32, "F16": np.float16}
_WHOLE: dict[str, type[np.generic]] = {"I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "U8": np.uint8}
_DTYPES = {**_FLOATS, **_WHOLE, "BOOL": np.bool_}
_NAMES = {np.dtype(kind): name for name, kind in _DTYPES.items()}


@dataclass(frozen=True)
class Piece:
    """One file of a checkpoint, as its manifest names it."""

    name: str
    bytes: int
    crc32: int

    @staticmethod
    def of(described: Mapping[str, Any], directory: Path) -> Piece:
        """As a manifest or model.json of this directory describes it."""
        try:
            return Piece(described["name"], described["bytes"], described["crc32"])
        except KeyError as missing:
            raise DamagedError(f"{directory} does not give the {missing} of a file") from None


def verify(path: Path, piece: Piece) -> None:
    """Read a file of any kind and compare it with what was written."""
    with Reader(path) as file:
        if file.size != piece.bytes:
            raise DamagedError(f"{path} has {file.size} bytes where {piece.bytes} were written")
        checksum, room = 0, np.empty(min(CHUNK, file.size), np.uint8)
        for count in _steps(file.size, CHUNK):
            checksum = zlib.crc32(file.take(count, room).data, checksum)
    if checksum != piece.crc32:
        raise DamagedError(f"{path} is damaged, or was changed: its checksum is not the one that was written")


@dataclass(frozen=True)
class Stream:
    """An array that is produced in chunks along its first axis."""

    dtype: np.dtype
    shape: tuple[int, ...]
    chunks: Iterable[np.ndarray]


def write_tensors(path: Path, tensors: Mapping[str, np.ndarray | Stream], metadata: Mapping[str, str]) -> Piece:
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    offset = 0
    for name, tensor in tensors.items():
        size = int(np.prod(tensor.shape, dtype=np.int64)) * tensor.dtype.itemsize
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + size],
        }
        offset += size
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    checksum = 0
    with atomic(path) as file:
        for chunk in _all_chunks(raw, tensors.values()):
            file.write(chunk)
            checksum = zlib.crc32(chunk, checksum)
    return Piece(path.name, 8 + len(raw) + offset, checksum)


def _all_chunks(header: bytes, tensors: Iterable[np.ndarray | Stream]) -> Iterator[bytes | memoryview]:
    yield struct.pack("<Q", len(header)) + header
    for tensor in tensors:
        yield from _chunks(tensor)


def _chunks(tensor: np.ndarray | Stream) -> Iterator[memoryview]:
    if isinstance(tensor, Stream):
        for part in tensor.chunks:
            if part.size:
                yield np.ascontiguousarray(part).data.cast("B")
    elif tensor.size:
        view = np.ascontiguousarray(tensor).data.cast("B")
        for start in range(0, len(view), CHUNK):
            yield view[start : start + CHUNK]


@dataclass(frozen=True)
class Tensors:
    """The arrays of one file, and what its header says about them."""

    arrays: dict[str, np.ndarray]
    metadata: dict[str, str]


class TensorFile:
    """The arrays of a file, one after the other as they lie in it, none of them held unless it is asked for.

    With a piece, size and checksum must be those that were written. The checksum is known only after the last array: what was
    read until then is good for nothing if the end raises. Of what is read `once` the system keeps no copy.
    """

    def __init__(
        self, path: Path, piece: Piece | None = None, once: bool = False, missing_seconds: float = 0.0
    ) -> None:
        self.path = path
        self._piece = piece
        self._checksum = 0
        self._file = Reader(path, once, missing_seconds)
        if piece is not None and self._file.size != piece.bytes:
            raise DamagedError(f"{path} has {self._file.size} bytes where {piece.bytes} were written")
        self._left = self._file.size
        try:
            length = int(self._take(8).view(np.uint64)[0])
            header = json.loads(self._take(min(length, self._left)).tobytes())
            self.metadata: dict[str, str] = header.pop("__metadata__", {})
            entries = sorted(header.items(), key=lambda item: item[1]["data_offsets"])
            self.entries = {name: (np.dtype(_DTYPES[e["dtype"]]), tuple(e["shape"])) for name, e in entries}
            self._offsets = {name: 8 + length + int(entry["data_offsets"][0]) for name, entry in entries}
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            raise DamagedError(f"{path} is not a safetensors file") from None
        if sum(map(self._bytes, self.entries)) != self._left:
            raise DamagedError(f"{path} does not hold the arrays that its header names")

    def _bytes(self, name: str) -> int:
        dtype, shape = self.entries[name]
        return int(np.prod(shape, dtype=np.int64)) * dtype.itemsize

    def __iter__(self) -> Iterator[tuple[str, Iterator[np.ndarray]]]:
        """Each array's name and its parts along the first axis. A part is overwritten by the next."""
        for name in self.entries:
            parts = self._parts(name)
            yield name, parts
            for _ in parts:
                pass
        if self._piece is not None and self._checksum != self._piece.crc32:
            raise DamagedError(f"{self.path} is damaged: its checksum is not the one that was written")

    def _parts(self, name: str) -> Iterator[np.ndarray]:
        dtype, shape = self.entries[name]
        count = shape[0] if shape else 1
        line = self._bytes(name) // max(count, 1)
        room: np.ndarray | None = None
        for lines in _steps(count, max(1, CHUNK // max(line, 1))):
            room = np.empty(lines * line, np.uint8) if room is None or room.size < lines * line else room
            yield self._take(lines * line, room).view(dtype).reshape(lines, *shape[1:])

    def whole(self, name: str, parts: Iterator[np.ndarray]) -> np.ndarray:
        """An array, put together from its parts."""
        dtype, shape = self.entries[name]
        array = np.empty(shape, dtype)
        flat, at = array.reshape(-1), 0
        for part in parts:
            flat[at : at + part.size] = part.reshape(-1)
            at += part.size
        return array

    def one(self, name: str) -> np.ndarray:
        """One array alone; nothing else is read and no checksum known."""
        self._file.seek(self._offsets[name])
        return self.whole(name, self._parts(name))

    def _take(self, count: int, room: np.ndarray | None = None) -> np.ndarray:
        """The next bytes of the file."""
        taken = self._file.take(count, room)
        if self._piece is not None:
            self._checksum = zlib.crc32(taken.data, self._checksum)
        self._left -= count
        return taken

    def __enter__(self) -> TensorFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _steps(total: int, step: int) -> Iterator[int]:
    for start in range(0, total, step):
        yield min(step, total - start)


def read_tensors(path: Path, piece: Piece | None = None) -> Tensors:
    """All arrays of a file; with `piece`, only if size and checksum are those that were written."""
    with TensorFile(path, piece) as file:
        return Tensors({name: file.whole(name, parts) for name, parts in file}, file.metadata)
