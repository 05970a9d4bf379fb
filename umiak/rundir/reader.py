"""A file read in order on a volume that may fail: it is opened again where reading stopped, and no byte is given twice."""

from __future__ import annotations

import contextlib
import os
import time
from io import FileIO
from pathlib import Path

import numpy as np

from umiak.errors import DamagedError
from umiak.files import forget, patiently

MISSING_SECONDS = 10.0
"""How long a piece of a checkpoint is waited for: a shared volume may not show at once what another machine wrote."""


class Reader:
    def __init__(self, path: Path, once: bool = False, missing_seconds: float = 0.0) -> None:
        """Of what is read `once` the system keeps no copy.

        A file that is not there is damage: something names it. It is waited for where another may have just put it there.
        """
        self.path, self._once, self._missing_seconds = path, once, missing_seconds
        self._at = 0
        self._file: FileIO | None = None
        self.size = patiently(self._open, path)

    def seek(self, at: int) -> None:
        """Read on from here."""
        self._at = at
        patiently(self._open, self.path)

    def take(self, count: int, room: np.ndarray | None = None) -> np.ndarray:
        """The next bytes, in `room` if it is given."""
        taken = (np.empty(count, np.uint8) if room is None else room)[:count]
        end = self._at + count

        def read() -> None:
            if self._file is None:
                self._open()
            assert self._file is not None
            try:
                while self._at < end:
                    got = self._file.readinto(taken.data[count - (end - self._at) :])
                    if not got:
                        raise DamagedError(f"{self.path} ended {end - self._at} bytes too early")
                    self._at += got
            except OSError:
                self.close()
                raise

        patiently(read, self.path)
        if self._once and self._file is not None:
            forget(self._file, end - count, count)
        return taken

    def _open(self) -> int:
        """Open it, or open it again where reading stopped; its size."""
        self.close()
        file = _opened(self.path, self._missing_seconds)
        try:
            file.seek(self._at)
            size = os.fstat(file.fileno()).st_size
        except OSError:
            file.close()
            raise
        self._file = file
        return size

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # all that was wanted of it has been read
                self._file.close()
            self._file = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _opened(path: Path, missing_seconds: float) -> FileIO:
    deadline = time.monotonic() + missing_seconds
    while True:
        try:
            return path.open("rb", buffering=0)
        except FileNotFoundError:
            if time.monotonic() >= deadline:
                raise DamagedError(f"{path} is missing") from None
        time.sleep(0.2)
