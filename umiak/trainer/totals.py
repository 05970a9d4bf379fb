"""Cost and metrics over many batches, as one float64 vector that adds up over batches and trainers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from umiak.data.usercode import invoke
from umiak.spec.config import Metric


class Totals:
    """The vector is [summed cost, samples, totals of each metric in turn]."""

    def __init__(self, metrics: Mapping[str, Metric]) -> None:
        self.metrics = metrics
        self.vector = np.zeros(2 + sum(metric.size for metric in metrics.values()))

    def add(self, cost: float, samples: int, output: Any, batch: Mapping[str, Any]) -> None:
        self.vector[0] += cost * samples
        self.vector[1] += samples
        if output is not None:
            for metric, part in self._parts(self.vector):
                invoke(metric.add, part, output, batch)

    @property
    def samples(self) -> int:
        return int(self.vector[1])

    def values(self, vector: np.ndarray | None = None) -> dict[str, float]:
        """Mean cost and each metric; of another vector of the same kind if given."""
        total = self.vector if vector is None else vector
        if not total[1]:
            return {}
        values = {"cost": float(total[0] / total[1])}
        for name, (metric, part) in zip(self.metrics, self._parts(total), strict=True):
            values[name] = float(metric.value(part))
        return values

    def since(self, before: np.ndarray) -> dict[str, float]:
        return self.values(self.vector - before)

    def _parts(self, vector: np.ndarray) -> list[tuple[Metric, np.ndarray]]:
        parts, at = [], 2
        for metric in self.metrics.values():
            parts.append((metric, vector[at : at + metric.size]))
            at += metric.size
        return parts
