"""CPU affinity where one machine has more trainers than cores, so that no core is idle while two trainers share another.

Linux moves processes about in the middle of a round, so that one of three trainers on two cores ends it alone, and may leave
the core of one that waits idle for 10 ms and more. So in long rounds each trainer is pinned to a core, which some of them share,
and when one of them begins to wait, another that shares its core is moved to the one that has become free.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

LONG_SECONDS = 0.05
"""In shorter rounds there is nothing to gain."""


class Affinity:
    """The cores that processes are pinned to, by their ids. If one cannot be pinned, or has ended, all are released."""

    def __init__(self) -> None:
        self._cores: frozenset[int] = frozenset()
        self.pinned: dict[int, int] = {}

    def pin(self, processes: Sequence[int]) -> None:
        """A round begins: pin each of these to a core, unless there is a core for each."""
        if not hasattr(os, "sched_setaffinity") or 0 in processes or len(set(processes)) < len(processes):
            return  # not on this machine, or threads of one process
        cores = frozenset(os.sched_getaffinity(0))
        if len(processes) <= len(cores):
            return
        try:
            # A process that was told where to run, by taskset(1) say, stays there.
            if not self.pinned and any(os.sched_getaffinity(pid) != cores for pid in processes):
                return
            self._cores = cores
            order = sorted(cores)
            for number, pid in enumerate(processes):
                self._pin(pid, order[number % len(order)])
        except OSError:
            self.release()

    def wait(self, process: int, computing: Collection[int]) -> None:
        """One of them waits from now on: another may take its core."""
        if process not in self.pinned:
            return
        core = self.pinned[process]
        moved = choose(core, {pid: other for pid, other in self.pinned.items() if pid in computing})
        if moved is not None:
            try:
                self._pin(moved, core)
            except OSError:
                self.release()

    def release(self) -> None:
        """Let every process run on any core."""
        for pid in self.pinned:
            try:
                os.sched_setaffinity(pid, self._cores)
            except OSError:
                continue  # it has ended
        self.pinned = {}

    def _pin(self, pid: int, core: int) -> None:
        if self.pinned.get(pid) != core:
            os.sched_setaffinity(pid, {core})
            self.pinned[pid] = core


class RoundAffinity(Affinity):
    """Pins the trainers of a job for a round if the one before was long."""

    def __init__(self) -> None:
        super().__init__()
        self._began = 0.0
        """When the round began; 0 before the first."""

    def round_ended(self, processes: Sequence[int], cut: bool) -> None:
        """A round has ended and the next begins, unless a `cut` is between them. Without `processes`, nobody is pinned."""
        now, began = time.monotonic(), self._began
        self._began = now
        if cut or now - began < LONG_SECONDS:
            self.release()
        elif processes and began:
            self.pin(processes)

    def forget(self) -> None:
        """The job is over."""
        self.release()
        self._began = 0.0


def choose(core: int, pinned: Mapping[int, int]) -> int | None:
    """Of processes on these cores, the one that should move to `core`; None if that has as many as any, or nearly."""
    shared = Counter(pinned.values())
    return next((pid for pid, other in pinned.items() if shared[other] > shared[core] + 1), None)
