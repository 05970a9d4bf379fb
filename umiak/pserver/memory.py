"""Memory for the stores: arrays that grow in place, so that a large table never needs twice its memory for a moment."""

from __future__ import annotations

import mmap
import sys

import numpy as np

_PAGE = 1 << 21
"""Sizes are whole huge pages: random rows of a table need far fewer address translations with them."""


class Growing:
    """Zeroed memory of its own for `lines` of `width` bytes each, of which pages that were never touched cost nothing.

    `array` gives a view of it. Views must be dropped before `grow`, which may move the memory: the operating system moves
    pages then, not bytes. Private to the process, so a forked child sees the memory as it was at the fork.
    """

    def __init__(self, width: int, lines: int) -> None:
        self.width = width
        self._map = _new(width * lines)
        self._arrays: dict[type[np.generic], np.ndarray] = {}
        self.lines = len(self._map) // width

    def array(self, dtype: type[np.generic]) -> np.ndarray:
        """The memory as a matrix with one row per line."""
        found = self._arrays.get(dtype)
        if found is None:
            columns = self.width // np.dtype(dtype).itemsize
            found = np.frombuffer(self._map, dtype, count=self.lines * columns).reshape(self.lines, columns)
            self._arrays[dtype] = found
        return found

    def release(self, start: int, stop: int) -> None:
        """Give the memory of these lines back, as far as whole pages go; they are zero or as they were after that.

        A forked child that does so frees its parent of copying what it changes there.
        """
        if hasattr(mmap, "MADV_DONTNEED"):
            first = -(-start * self.width // mmap.PAGESIZE) * mmap.PAGESIZE
            end = stop * self.width // mmap.PAGESIZE * mmap.PAGESIZE
            if end > first:
                self._map.madvise(mmap.MADV_DONTNEED, first, end - first)

    def grow(self, lines: int) -> None:
        size = _round(self.width * lines)
        if size <= len(self._map):
            return
        self._arrays.clear()
        if sys.platform == "linux":
            self._map.resize(size)
            _advise(self._map)
        else:
            old, self._map = self._map, _new(size)
            np.frombuffer(self._map, np.uint8)[: len(old)] = np.frombuffer(old, np.uint8)
        self.lines = size // self.width


def _round(size: int) -> int:
    return max(1, -(-size // _PAGE)) * _PAGE


def _new(size: int) -> mmap.mmap:
    memory = mmap.mmap(-1, _round(size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    _advise(memory)
    return memory


def _advise(memory: mmap.mmap) -> None:
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)


def plain(array: np.ndarray, dtype: type[np.generic]) -> np.ndarray:
    """The array as kernels are compiled for it; anything else, a read-only buffer too, would make numba compile again."""
    return array if array.dtype == dtype and array.flags.carray else np.array(array, dtype, order="C")
