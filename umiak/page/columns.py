"""Numbers that come in rows, kept in few bytes: one array a column, which grows. And curves of them with few enough points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
PER_PIXEL = 4
FIRST = 16


class Columns:
    """Rows in the order of `key`. A row whose key is not past the last one replaces what comes after it: a run began again."""

    def __init__(self, names: Sequence[str], key: str) -> None:
        self.names, self.key, self.count = tuple(names), key, 0
        self._arrays = {name: np.empty(FIRST) for name in names}

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, name: str) -> Floats:
        return self._arrays[name][: self.count]

    def append(self, rows: Mapping[str, Sequence[float]]) -> None:
        keys = np.asarray(rows[self.key], dtype=np.float64)
        while len(keys):
            # Up to the next row that goes back.
            back = np.flatnonzero(np.diff(keys) <= 0)
            end = int(back[0]) + 1 if len(back) else len(keys)
            self._add({name: rows[name][:end] for name in self.names}, keys[:end])
            keys, rows = keys[end:], {name: rows[name][end:] for name in self.names}

    def _add(self, rows: Mapping[str, Sequence[float]], keys: Floats) -> None:
        if self.count and keys[0] <= self._arrays[self.key][self.count - 1]:
            self.count = int(np.searchsorted(self[self.key], keys[0]))
        end = self.count + len(keys)
        room = len(self._arrays[self.key])
        if end > room:
            for name, array in self._arrays.items():
                self._arrays[name] = np.concatenate([array[: self.count], np.empty(max(end, 2 * room) - self.count)])
        for name, array in self._arrays.items():
            array[self.count : end] = rows[name]
        self.count = end

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in self._arrays.values())


def reduced(x: Floats, y: Floats, pixels: int) -> tuple[Floats, Floats]:
    """At most four points a pixel: in each, the first, the lowest, the highest and the last one. `x` must not fall."""
    if len(x) <= PER_PIXEL * pixels or pixels < 1:
        return x, y
    low, high = x[0], x[-1]
    bucket = (
        np.minimum(((x - low) * (pixels / (high - low))).astype(np.int64), pixels - 1)
        if high > low
        else np.zeros(len(x), np.int64)
    )
    starts = np.flatnonzero(np.diff(bucket, prepend=-1))
    ends = np.append(starts[1:], len(x)) - 1
    # Points that are no numbers must neither win nor hide others.
    lowest = _extreme(np.where(np.isnan(y), np.inf, y), starts, ends, np.minimum)
    highest = _extreme(np.where(np.isnan(y), -np.inf, y), starts, ends, np.maximum)
    kept = np.unique(np.concatenate([starts, ends, lowest, highest]))
    return x[kept], y[kept]


def _extreme(y: Floats, starts: NDArray[np.int64], ends: NDArray[np.int64], of: np.ufunc) -> NDArray[np.int64]:
    """Where in each bucket the first value equals its extreme one."""
    values = of.reduceat(y, starts)
    hits = np.flatnonzero(y == np.repeat(values, ends - starts + 1))
    return hits[np.searchsorted(hits, starts)]
