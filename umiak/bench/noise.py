"""How much of the machine others used during a run: all CPU time that was spent, less that of our own processes."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


class Watch:
    """Starts with its creation; counts this process and everything it started, so it belongs to a run's own process."""

    def __init__(self) -> None:
        self._began, self._busy, self._own = time.monotonic(), busy_seconds(), tree_seconds(os.getpid())
        self.others: float | None = None

    def stop(self) -> float:
        """The share of the machine, from 0 to 1, that others had. Call it while the run's processes still live."""
        if self.others is None:
            own = tree_seconds(os.getpid()) - self._own
            spent = busy_seconds() - self._busy - own
            cores = os.cpu_count() or 1
            self.others = max(0.0, spent / (cores * max(time.monotonic() - self._began, 1e-3)))
        return self.others


def busy_seconds() -> float:
    """CPU time of everything on this machine, and what the host took from it."""
    user, nice, system, _, _, irq, soft, steal = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + irq + soft + steal) / _TICKS


def tree_seconds(root: int) -> float:
    """CPU time of a process, its descendants, and those of them that have ended and were waited for."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            fields = path.read_text().rpartition(")")[2].split()
            pid = int(path.parent.name)
            parents[pid] = int(fields[1])
            spent[pid] = sum(map(int, fields[11:15])) / _TICKS
    return sum(seconds for pid, seconds in spent.items() if _descends(pid, root, parents))


def _descends(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != root:
        pid = parents[pid]
    return pid == root
