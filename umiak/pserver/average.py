"""The mean of a service's dense values over a window of updates, as PaddlePaddle v1 kept it (AverageOptimizer).

Training never sees the mean: tests and snapshots read it. Three sums hold the values after each update: the current one, one
that takes over what it gathered before it loses precision, and that of the window before, which is dropped when the
current window has become long enough.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from umiak.spec.average import Average

LEAST = 10_000
"""A window shorter than this is never closed, unless all of training was shorter by the end of a pass."""
TAKEN_OVER = 16_384
"""After so many updates the current sum is added to the second."""
UNBOUNDED = (1 << 63) - 1


class Counts(NamedTuple):
    """Updates so far, and by the end of the last pass; values in the current sums, and in that of the window before."""

    updates: int
    by_last_pass: int
    current: int
    before: int
    least: int
    most: int


class Averaging:
    def __init__(self, average: Average, size: int) -> None:
        self._average = average
        self.sums = np.zeros((3, size), np.float32)
        most = UNBOUNDED if average.most is None else average.most
        self.counts = Counts(0, 0, 0, 0, min(LEAST, most), most)

    def add(self, values: np.ndarray) -> None:
        """Count in the values after an update."""
        now, taken_over, before = self.sums
        counts = self.counts
        updates, current = counts.updates + 1, counts.current + 1
        now += values
        if updates % TAKEN_OVER == 0:
            taken_over += now
            now[:] = 0
        self.counts = counts = counts._replace(updates=updates, current=current)
        if current >= counts.least and current >= min(counts.most, int(updates * self._average.window)):
            np.add(now, taken_over, out=before)
            now[:] = 0
            taken_over[:] = 0
            self.counts = counts._replace(current=0, before=current)

    def end_pass(self) -> None:
        counts = self.counts
        if self._average.most is None and counts.updates > counts.by_last_pass:
            counts = counts._replace(most=counts.updates - counts.by_last_pass, by_last_pass=counts.updates)
        self.counts = counts._replace(least=min(counts.least, counts.updates))

    def mean(self, values: np.ndarray) -> np.ndarray:
        """The averaged values; before the first update, the values themselves."""
        summed = self.counts.current + self.counts.before
        if not summed:
            return values.copy()
        scale = np.float32(1 / summed)
        now, taken_over, before = self.sums
        return np.asarray(scale * now + scale * taken_over + scale * before)
