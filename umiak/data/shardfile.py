"""One shard's part of a file while it is written: under a temporary name, counted and hashed."""

from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path

from umiak.data.shards import Piece
from umiak.files import CHUNK, sync_directory


class Output:
    """One shard's part of a file, under a temporary name until it is whole. Counts and hashes what reaches the disk."""

    def __init__(self, target: Path, at: int = 0, packed: bool = False) -> None:
        """`at` is how much of an earlier, interrupted run is kept; what is `packed` is compressed on its way."""
        self.target, self.temporary = target, target.with_name(f".{target.name}.part")
        self._file = self.temporary.open("r+b" if at else "wb")
        self._digest, self.bytes, self.samples = hashlib.sha256(), at, 0
        while self._file.tell() < at:
            self._digest.update(self._file.read(min(CHUNK, at - self._file.tell())))
        self._file.truncate()
        self._packed = gzip.GzipFile("", "wb", fileobj=self, mtime=0) if packed else None

    def put(self, lines: list[bytes]) -> None:
        data = b"".join(lines)
        self._packed.write(data) if self._packed else self.write(data)

    def write(self, data: bytes) -> int:
        self._file.write(data)
        self._digest.update(data)
        self.bytes += len(data)
        return len(data)

    def flush(self) -> None:
        self._file.flush()

    def sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def publish(self) -> Piece:
        if self._packed:
            self._packed.close()
        self.sync()
        self._file.close()
        self.temporary.replace(self.target)
        sync_directory(self.target.parent)
        return Piece(self.bytes, self._digest.hexdigest(), self.samples)
