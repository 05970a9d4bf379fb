"""The time of the fake: stopped until a test moves it, or running some times faster than ours; and what is due when.

A stack of a quarter of an hour takes a test no time at all. Work that takes time is done by whoever asks next: before a
request is answered, everything that is due by then happens, in its order.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


class Clock:
    def __init__(self, speed: float = 0.0) -> None:
        self.speed = speed
        self._epoch = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
        self._began = time.monotonic()
        self._moved = 0.0
        self._reached = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    @property
    def seconds(self) -> float:
        """Since the fake was arranged. While something that was due happens, the moment it was due at."""
        return self._reached

    def now(self) -> datetime:
        return self._epoch + timedelta(seconds=self._reached)

    def advance(self, seconds: float) -> None:
        self._moved += seconds

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self._reached + seconds, next(self._numbers), what))

    def run(self) -> None:
        """Let everything happen that is due by now."""
        until = self._moved + self.speed * (time.monotonic() - self._began)
        while self._due and self._due[0][0] <= until:
            self._reached, _, what = heapq.heappop(self._due)
            what()
        self._reached = max(self._reached, until)

    def settle(self) -> None:
        """Let everything happen that is due at any time."""
        while self._due:
            self._moved = max(self._moved, self._due[0][0])
            self.run()
