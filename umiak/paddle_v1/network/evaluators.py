"""The evaluators of a v1 config as metrics: totals that add up over batches and trainers (spec/config.py, Metric)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from umiak.errors import InputError
from umiak.paddle_v1.graph import Evaluator, Graph
from umiak.paddle_v1.network.values import Value


class ClassificationError:
    """The share of lines whose largest value is not the label's; one value per line stands for class 1 above one half.

    With a weight, lines count as much as it says. With top_k, a label among the k largest values is right.
    """

    size = 2

    def __init__(self, evaluator: Evaluator) -> None:
        self.predicted, self.label, *weight = evaluator.inputs
        self.weight = weight[0] if weight else None
        self.top_k = int(evaluator.options.get("top_k", 1))

    def add(self, total: np.ndarray, output: Any, batch: Mapping[str, Any]) -> None:
        predicted: Value = output.values[self.predicted]
        scores = predicted.data.detach().numpy()
        labels = output.values[self.label].data.numpy().reshape(-1)
        wrong = self._wrong(scores, labels)
        if self.weight is None:
            total += (np.count_nonzero(wrong), len(labels))
        else:
            weights = output.values[self.weight].data.detach().numpy().reshape(-1)
            total += (weights[wrong].sum(), weights.sum())

    def _wrong(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        if self.top_k > 1:
            largest = np.argpartition(scores, -min(self.top_k, scores.shape[1]), axis=1)[:, -self.top_k :]
            return np.asarray((largest != labels[:, None]).all(1))
        chosen = scores.argmax(1) if scores.shape[1] > 1 else scores[:, 0] > 0.5
        return np.asarray(chosen != labels)

    def value(self, total: np.ndarray) -> float:
        return float(total[0] / total[1]) if total[1] else float("nan")


KINDS = {"classification_error": ClassificationError}


def metrics(graph: Graph) -> dict[str, ClassificationError]:
    """The metrics of a config's evaluators by their names, in their order."""
    for evaluator in graph.evaluators:
        if evaluator.kind not in KINDS:
            raise InputError(f"umiak has no evaluator {evaluator.kind!r}; it has {', '.join(KINDS)}")
    return {_shown(evaluator): KINDS[evaluator.kind](evaluator) for evaluator in graph.evaluators}


def _shown(evaluator: Evaluator) -> str:
    """The name in logs: with top_k the original leaves out the evaluator's own."""
    k = evaluator.options.get("top_k", 1)
    return evaluator.name if k == 1 else f"top_{k}_error"
