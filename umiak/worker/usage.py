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
        self._before: dict[int, float] = {}
        self._looked = time.monotonic()

    def look(self, pids: Mapping[str, int]) -> Processes | None:
        """What the processes of these roles use; None if it is too early, or nothing can be known."""
        now = time.monotonic()
        if (passed := now - self._looked) < SECONDS:
            return None
        found: dict[str, Values] = {}
        seconds: dict[int, float] = {}
        for role, pid in pids.items():
            if (used := system.usage(pid)) is not None:
                memory, seconds[pid] = used
                found[role] = {
                    "memory": memory,
                    "cpu": max(seconds[pid] - self._before.get(pid, seconds[pid]), 0.0) / passed,
                }
        self._looked, self._before = now, seconds
        return Processes(self.worker, found) if found else None
