"""Writes down when the rounds of one trainer end, from its steady state on. Knows nothing of what is trained."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

_TIME = struct.Struct("<d")


class Meter:
    """Notes ticks after the first `warm_up`; a tick stands for `scale` rounds. `notes` are told once, at the first of them."""

    def __init__(
        self, directory: Path, trainer: int, warm_up: int, notes: Callable[[], dict[str, Any]] = dict, scale: int = 1
    ) -> None:
        self._path, self._told = directory / f"trainer-{trainer}.ticks", directory / f"trainer-{trainer}.json"
        self._warm_up, self._notes, self._scale = warm_up, notes, scale
        self._ticks = 0
        self._file: IO[bytes] | None = None

    def tick(self) -> None:
        """Call once in every round, or in as many as `scale` says."""
        self._ticks += 1
        if self._ticks <= self._warm_up:
            return
        if self._file is None:
            self._told.write_text(json.dumps({"scale": self._scale, **self._notes()}))
            self._file = self._path.open("wb", buffering=0)
        self._file.write(_TIME.pack(time.monotonic()))


class Reading:
    """What the meter of one trainer has written, as whoever gives it turns sees it."""

    def __init__(self, directory: Path, trainer: int) -> None:
        self._path, self._told = directory / f"trainer-{trainer}.ticks", directory / f"trainer-{trainer}.json"
        self._seen = 0

    @property
    def has_begun(self) -> bool:
        return self._path.exists() and self._path.stat().st_size > 0

    def forget(self) -> None:
        """Count from here on."""
        self._seen = self._path.stat().st_size

    def span(self) -> float:
        """Seconds from the first tick since then to the last."""
        times = self._times()
        return float(times[-1] - times[0]) if times.size else 0.0

    def rounds_per_s(self) -> float:
        """From tick to tick: what was left of a round when counting began, and the one that has not ended, are left out."""
        return (self._times().size - 1) * self.notes()["scale"] / self.span()

    def notes(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._told.read_text())
        return found

    def _times(self) -> np.ndarray:
        whole = (self._path.stat().st_size - self._seen) // _TIME.size
        return np.fromfile(self._path, "<f8", whole, offset=self._seen)
