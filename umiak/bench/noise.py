"""How much of the machine others used during a run: all CPU time that was spent, less that of our own processes."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


class Watch:
    """Starts with its creation; our own is one process, by default this one, and everything it started."""

    def __init__(self, root: int | None = None) -> None:
        self._root = os.getpid() if root is None else root
        self._began, self._busy, self._own = time.monotonic(), busy_seconds(), tree_seconds(self._root)
        self.others: float | None = None

    def stop(self) -> float:
        """The share of the machine, from 0 to 1, that others had. Call it while the run's processes still live."""
        if self.others is None:
            own = tree_seconds(self._root) - self._own
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
    found = _processes()
    return sum(seconds for pid, (_, seconds) in found.items() if _descends(pid, root, found))


def tree(root: int) -> list[int]:
    """A process and its descendants, as far as they live."""
    found = _processes()
    return [pid for pid in found if _descends(pid, root, found)]


def _processes() -> dict[int, tuple[int, float]]:
    """The parent and the CPU time of every process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            fields = path.read_text().rpartition(")")[2].split()
            found[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15])) / _TICKS
    return found


def _descends(pid: int, root: int, processes: dict[int, tuple[int, float]]) -> bool:
    while pid in processes and pid != root:
        pid = processes[pid][0]
    return pid == root
