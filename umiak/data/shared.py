"""A table that one process makes and all others of a job on this machine map into their memory.

The file that holds it has no name: it is opened before processes are forked, and gone when the last of them has ended. The
first who needs the table makes it while the others wait; should that one die, the next makes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import mmap
import os
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from umiak.data.columns import Columns, Ragged

_START = struct.Struct("<QQ")
"""Where the description of the table begins, and its length; both 0 until the table is whole."""
ALIGNED = 64
log = logging.getLogger("umiak.data")


class Numbered(NamedTuple):
    """All samples of a source, and the number that decides whose shard each is in."""

    columns: Columns | None
    numbers: np.ndarray


@contextlib.contextmanager
def shared(*sources: Any) -> Iterator[None]:
    """Have trainers that are forked from now on hold these sources once, where they are held in memory at all."""
    with contextlib.ExitStack() as stack:
        for source in sources:
            if hasattr(source, "share"):
                source.share(stack.enter_context(contextlib.closing(Store())))
                stack.callback(source.share, None)
        yield


class Store:
    """Where one table goes. Made before a fork, used after it."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="umiak-data-")  # noqa: SIM115 (it lives as long as its users)

    def close(self) -> None:
        self._file.close()

    def get(self, make: Callable[[], Numbered]) -> Numbered | None:
        """The table, made here unless somebody has made it; None if there is no room for it on the disk."""
        number = self._file.fileno()
        # Locks of this kind are a process's own. Those of flock would be shared with everybody who inherited the file.
        fcntl.lockf(number, fcntl.LOCK_EX)
        try:
            if not self._is_whole():
                self._make(make)
        except OSError as error:
            log.warning(
                "cannot hold the data once for all trainers in %s (%s): each parses its own",
                tempfile.gettempdir(),
                error,
            )
            return None
        finally:
            fcntl.lockf(number, fcntl.LOCK_UN)
        return self._mapped()

    def _is_whole(self) -> bool:
        start = os.pread(self._file.fileno(), _START.size, 0)
        return len(start) == _START.size and _START.unpack(start)[1] > 0

    def _make(self, make: Callable[[], Numbered]) -> None:
        begun = time.monotonic()
        table = make()
        writer = _Writer(self._file.fileno())
        described = {
            "numbers": writer.put(table.numbers),
            "columns": None
            if table.columns is None
            else {name: writer.put(table.columns[name]) for name in table.columns.names},
        }
        writer.end(json.dumps(described).encode())
        log.info(
            "parsed %d samples once for all trainers of this machine: %.0f MB in %.1f s",
            len(table.numbers),
            writer.at / 1e6,
            time.monotonic() - begun,
        )

    def _mapped(self) -> Numbered:
        memory = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        begin, length = _START.unpack_from(memory, 0)
        described = json.loads(memory[begin : begin + length])
        columns = described["columns"]
        found = None if columns is None else Columns({name: _read(memory, each) for name, each in columns.items()})
        return Numbered(found, _read(memory, described["numbers"]))


class _Writer:
    """Writes by place: all who inherited the file share one position in it."""

    def __init__(self, file: int) -> None:
        self._file, self.at = file, ALIGNED
        os.ftruncate(file, 0)

    def put(self, column: Any) -> dict[str, Any]:
        if isinstance(column, Ragged):
            return {"values": self.put(column.values), "offsets": self.put(column.offsets)}
        array = np.ascontiguousarray(column)
        begin = self.at
        self._write(array.reshape(-1).view(np.uint8).data if array.size else memoryview(b""))
        self.at += -self.at % ALIGNED
        return {"dtype": array.dtype.str, "shape": array.shape, "begin": begin}

    def end(self, described: bytes) -> None:
        begin = self.at
        self._write(memoryview(described))
        os.pwrite(self._file, _START.pack(begin, len(described)), 0)

    def _write(self, data: memoryview) -> None:
        while data:
            count = os.pwrite(self._file, data, self.at)
            data = data[count:]
            self.at += count


def _read(memory: mmap.mmap, described: dict[str, Any]) -> Any:
    if "offsets" in described:
        return Ragged(_read(memory, described["values"]), _read(memory, described["offsets"]))
    shape, dtype = tuple(described["shape"]), np.dtype(described["dtype"])
    count = int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(memory, dtype, count, described["begin"] if count else 0).reshape(shape)
