"""More trainers than cores on one machine: who computes where, so that nobody's core is idle while two share another.

Linux moves processes about in the middle of a round, so that one of three trainers on two cores ends it alone, and may leave
the core of one that waits idle for 10 ms and more. So trainers have seats in long rounds: a core each, some the same one, and
when one of them begins to wait, another that shares its core takes the one that has become free.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

LONG_SECONDS = 0.05
"""In shorter rounds there is nothing to gain."""


class Seats:
    """The cores of processes, by their ids. Whoever is none of our business, or gone, ends it all: everybody is free."""

    def __init__(self) -> None:
        self._cores: frozenset[int] = frozenset()
        self.taken: dict[int, int] = {}

    def take(self, processes: Sequence[int]) -> None:
        """A round begins: seat these, unless there is a core for each."""
        if not hasattr(os, "sched_setaffinity") or 0 in processes or len(set(processes)) < len(processes):
            return  # not on this machine, or threads of one process
        cores = frozenset(os.sched_getaffinity(0))
        if len(processes) <= len(cores):
            return
        try:
            # Somebody who was told where to run, by taskset(1) say, stays there.
            if not self.taken and any(os.sched_getaffinity(pid) != cores for pid in processes):
                return
            self._cores = cores
            order = sorted(cores)
            for number, pid in enumerate(processes):
                self._seat(pid, order[number % len(order)])
        except OSError:
            self.leave()

    def wait(self, process: int, computing: Collection[int]) -> None:
        """One of them waits from now on: somebody may take its seat."""
        if process not in self.taken:
            return
        core = self.taken[process]
        moved = choose(core, {pid: seat for pid, seat in self.taken.items() if pid in computing})
        if moved is not None:
            try:
                self._seat(moved, core)
            except OSError:
                self.leave()

    def leave(self) -> None:
        """Let everybody run where they like."""
        for pid in self.taken:
            try:
                os.sched_setaffinity(pid, self._cores)
            except OSError:
                continue  # it has ended
        self.taken = {}

    def _seat(self, pid: int, core: int) -> None:
        if self.taken.get(pid) != core:
            os.sched_setaffinity(pid, {core})
            self.taken[pid] = core


def choose(core: int, seats: Mapping[int, int]) -> int | None:
    """Of processes on these cores, the one that should go to another `core`; None if that has as many as any, or nearly."""
    shared = Counter(seats.values())
    return next((pid for pid, seat in seats.items() if shared[seat] > shared[core] + 1), None)
