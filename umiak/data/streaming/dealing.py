"""Who reads which rows, and in which order. Pure arithmetic: no file is opened here.

The chunks of all files are put in an order that seed and pass decide, and their rows numbered through in that order. Shard
i of S has the rows from i / S to (i + 1) / S of them, in windows of a fixed size, and each window is permuted by seed, shard and
its own number. So a batch's rows follow from (seed, shard, batch) alone: a shard can be opened anywhere by reading one window.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from umiak.spec.config import Shard


class Piece(NamedTuple):
    """Rows `begin` to `end` of a chunk."""

    chunk: int
    begin: int
    end: int


class Deal:
    """The rows of one shard in one pass."""

    def __init__(self, rows: np.ndarray, size: int, shard: Shard, seed: int | None, window: int) -> None:
        """`rows` has the number of rows of each chunk, `size` is the batch size. Without a seed rows stay in their order."""
        self._seed, self._shard = seed, shard
        order = np.arange(len(rows))
        self._order = order if seed is None else np.random.default_rng(seed).permutation(order)
        self._ends = np.cumsum(rows[self._order])
        total = int(rows.sum())
        self._begin, self._end = (total * each // shard.count for each in (shard.index, shard.index + 1))
        self.size = size
        self.window_size = max(window // size, 1) * size
        """Rows of a window: whole batches."""

    def __len__(self) -> int:
        return self._end - self._begin

    @property
    def windows(self) -> int:
        return -(-len(self) // self.window_size)

    def first_window(self, start: int) -> int:
        """The window that holds batch number `start`."""
        return start * self.size // self.window_size

    def batches_before(self, window: int) -> int:
        return window * self.window_size // self.size

    def pieces(self, window: int) -> Iterator[Piece]:
        """Where the rows of a window are, in their order before it is permuted."""
        at = self._begin + window * self.window_size
        end = min(at + self.window_size, self._end)
        place = int(np.searchsorted(self._ends, at, side="right"))
        while at < end:
            chunk_end = int(self._ends[place])
            chunk_begin = int(self._ends[place - 1]) if place else 0
            stop = min(end, chunk_end)
            if stop > at:
                yield Piece(int(self._order[place]), at - chunk_begin, stop - chunk_begin)
            at, place = stop, place + 1

    def permutation(self, window: int, rows: int) -> np.ndarray:
        """The order of the rows of a window."""
        if self._seed is None:
            return np.arange(rows)
        return np.random.default_rng([self._seed, self._shard.index, window]).permutation(rows)
