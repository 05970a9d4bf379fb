"""What a worker's processes use: memory, and their share of a core since last asked."""

from __future__ import annotations

import time
from collections.abc import Mapping

from umiak import system
from umiak.messages.events import Processes, Values

SECONDS = 5.0
"""They are looked at so often."""


class Usage:
    def __init__(self, worker: int) -> None:
        self.worker = worker
        self._before: dict[int, tuple[float, float]] = {}
        """By process: when it was looked at, and its processor time then."""
        self._looked = time.monotonic()

    def look(self, pids: Mapping[str, int]) -> Processes | None:
        """What the processes of these roles use; None if it is too early, or nothing can be known."""
        now = time.monotonic()
        for pid in pids.values():
            if pid not in self._before and (used := system.usage(pid)) is not None:
                self._before[pid] = now, used[1]
        if now - self._looked < SECONDS:
            return None
        found: dict[str, Values] = {}
        before, self._before, self._looked = self._before, {}, now
        for role, pid in pids.items():
            if (used := system.usage(pid)) is not None:
                memory, seconds = used
                then, spent = before.get(pid, (now, seconds))
                found[role] = {"memory": memory, "cpu": (seconds - spent) / (now - then) if now > then else 0.0}
                self._before[pid] = now, seconds
        return Processes(self.worker, found) if found else None
