"""Files that are whole or not there: atomic writes, and arrays streamed to disk with their checksum.

Array files are in the safetensors format, so any tool reads them; they are written here in chunks because a table can be
larger than the memory that is left.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from umiak.errors import DamagedError, InputError

CHUNK = 8 << 20
_FLOATS: dict[str, type[np.generic]] = {"F64": np.float64, "F32": np.float32, "F16": np.float16}
_WHOLE: dict[str, type[np.generic]] = {"I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "U8": np.uint8}
_DTYPES = {**_FLOATS, **_WHOLE, "BOOL": np.bool_}
_NAMES = {np.dtype(kind): name for name, kind in _DTYPES.items()}


@dataclass(frozen=True)
class Piece:
    """One file of a checkpoint, as its manifest names it."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Stream:
    """An array that is produced in chunks along its first axis."""

    dtype: np.dtype
    shape: tuple[int, ...]
    chunks: Iterable[np.ndarray]


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[IO[bytes]]:
    """Write to a temporary name beside `path`; renamed into place, safely on disk, when the block ends well."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise disk_error(error, path) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    with atomic(path) as file:
        file.write(json.dumps(value, indent=1, sort_keys=True).encode() + b"\n")


def sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def disk_error(error: OSError, path: Path) -> InputError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InputError(f"no space left on the disk while writing {path}: free some, then run again with --resume")
    return InputError(f"cannot write {path}: {error.strerror or error}")


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
    digest = hashlib.sha256()
    with atomic(path) as file:

        def put(data: bytes | memoryview) -> None:
            file.write(data)
            digest.update(data)

        put(struct.pack("<Q", len(raw)) + raw)
        for tensor in tensors.values():
            for chunk in _chunks(tensor):
                put(chunk)
    return Piece(path.name, 8 + len(raw) + offset, digest.hexdigest())


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


def read_tensors(path: Path, piece: Piece | None = None) -> Tensors:
    """All arrays of a file; with `piece`, only if size and checksum are those that were written."""
    try:
        size = path.stat().st_size
        if piece is not None and size != piece.bytes:
            raise DamagedError(f"{path} has {size} bytes where {piece.bytes} were written")
        buffer = np.empty(size, np.uint8)
        digest = hashlib.sha256()
        with path.open("rb", buffering=0) as file:
            done = 0
            while done < size:
                count = file.readinto(buffer.data[done : done + CHUNK])
                if not count:
                    raise DamagedError(f"{path} ended after {done} of {size} bytes")
                if piece is not None:
                    digest.update(buffer.data[done : done + count])
                done += count
    except OSError as error:
        raise DamagedError(f"cannot read {path}: {error.strerror}") from None
    if piece is not None and digest.hexdigest() != piece.sha256:
        raise DamagedError(f"{path} is damaged: its checksum is not the one that was written")
    header, start = _header(path, buffer)
    arrays = {
        name: buffer[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]]
        .view(_DTYPES[entry["dtype"]])
        .reshape(entry["shape"])
        for name, entry in header.items()
        if name != "__metadata__"
    }
    return Tensors(arrays, header.get("__metadata__", {}))


def _header(path: Path, buffer: np.ndarray) -> tuple[dict[str, Any], int]:
    try:
        length = int(buffer[:8].view(np.uint64)[0])
        return json.loads(buffer[8 : 8 + length].tobytes()), 8 + length
    except (ValueError, IndexError):
        raise DamagedError(f"{path} is not a safetensors file") from None
