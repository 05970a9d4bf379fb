"""Counts the rounds of one trainer in its steady state and leaves the result in a file. Knows nothing of what is trained.

A trainer goes on after its measurement, until everybody has one: if it stopped, the others would run faster than they do.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Meter:
    """Begins to count after `warm_up` ticks; a tick stands for `scale` rounds. `notes` are added to the result."""

    def __init__(
        self,
        directory: Path,
        trainer: int,
        warm_up: int,
        seconds: float,
        notes: Callable[[], dict[str, Any]] = dict,
        scale: int = 1,
    ) -> None:
        self._path = result_path(directory, trainer)
        self._warm_up, self._seconds, self._notes, self._scale = warm_up, seconds, notes, scale
        self._rounds = 0
        self._began = 0.0
        self.done = False

    def tick(self) -> None:
        """Call once in every round, or in as many as `scale` says."""
        now = time.perf_counter()
        self._rounds += 1
        if self._rounds == self._warm_up + 1:
            self._began = now
        elif self._rounds > self._warm_up and not self.done and now - self._began >= self._seconds:
            self.done = True
            rounds = (self._rounds - self._warm_up - 1) * self._scale
            result = {"rounds": rounds, "seconds": now - self._began, **self._notes()}
            unfinished = self._path.with_suffix(".part")
            unfinished.write_text(json.dumps(result))
            unfinished.replace(self._path)


def result_path(directory: Path, trainer: int) -> Path:
    return directory / f"trainer-{trainer}.json"


def results(directory: Path, trainers: int) -> list[dict[str, Any]] | None:
    """What all trainers have measured; None while one of them is not done."""
    paths = [result_path(directory, trainer) for trainer in range(trainers)]
    return [json.loads(path.read_text()) for path in paths] if all(path.exists() for path in paths) else None
