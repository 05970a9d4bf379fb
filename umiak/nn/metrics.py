"""Numbers that say how good a model is, as totals that add up over batches and trainers (see spec/config.py, Metric).

They take outputs and batches as torch tensors or NumPy arrays; torch itself is not needed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from umiak.errors import InputError


class ClassificationError:
    """The share of samples whose most likely class is not the label.

    The output has one score per class, or a single score that is above 0 for class 1.
    """

    size = 2

    def __init__(self, label: str = "label") -> None:
        self.label = label

    def add(self, total: np.ndarray, output: Any, batch: Mapping[str, Any]) -> None:
        scores = _array(output)
        labels = _field(batch, self.label).reshape(-1)
        scores = scores.reshape(len(scores), -1)
        _same_length(self, len(scores), len(labels))
        chosen = scores.argmax(1) if scores.shape[1] > 1 else scores[:, 0] > 0
        total += (np.count_nonzero(chosen != labels), len(labels))

    def value(self, total: np.ndarray) -> float:
        return _ratio(total[0], total[1])


class AUC:
    """The chance that a random positive sample gets a higher score than a random negative one; labels are 0 and 1.

    The output is one logit per sample, or two (the second for class 1); with `logits=False` it is a probability. Probabilities
    are counted in 4,096 buckets, so that the totals of trainers add up; two samples in the same bucket count as a tie.
    """

    BUCKETS = 4096
    size = 2 * BUCKETS
    higher_is_better = True

    def __init__(self, label: str = "label", logits: bool = True) -> None:
        self.label = label
        self.logits = logits

    def add(self, total: np.ndarray, output: Any, batch: Mapping[str, Any]) -> None:
        scores = _array(output).astype(np.float64)
        labels = _field(batch, self.label).reshape(-1)
        scores = scores.reshape(len(scores), -1)
        _same_length(self, len(scores), len(labels))
        if scores.shape[1] > 2:
            raise InputError(f"AUC is for two classes, but the output has {scores.shape[1]} scores per sample")
        if self.logits:
            odds = scores[:, -1] - (scores[:, 0] if scores.shape[1] == 2 else 0)
            chances = 0.5 * (1 + np.tanh(0.5 * odds))
        else:
            chances = scores[:, -1]
            if len(chances) and (chances.min() < 0 or chances.max() > 1):
                raise InputError("AUC(logits=False) needs probabilities from 0 to 1; drop logits=False for raw scores")
        if np.isnan(chances).any():
            raise InputError("AUC: an output of the model is not a number")
        buckets = np.minimum((chances * self.BUCKETS).astype(np.int64), self.BUCKETS - 1)
        total += np.bincount(buckets + np.where(labels > 0, self.BUCKETS, 0), minlength=self.size)

    def value(self, total: np.ndarray) -> float:
        negative, positive = total[: self.BUCKETS], total[self.BUCKETS :]
        below = np.cumsum(negative) - negative / 2
        return _ratio(float(positive @ below), float(positive.sum() * negative.sum()))


class RMSE:
    """The root of the mean squared difference between output and target, times `scale` (0.5 if 2 units are one star)."""

    size = 2

    def __init__(self, target: str = "target", scale: float = 1.0) -> None:
        self.target = target
        self.scale = scale

    def add(self, total: np.ndarray, output: Any, batch: Mapping[str, Any]) -> None:
        predicted = _array(output).reshape(-1).astype(np.float64)
        target = _field(batch, self.target).reshape(-1)
        _same_length(self, len(predicted), len(target))
        total += (np.square(predicted - target).sum(), len(target))

    def value(self, total: np.ndarray) -> float:
        return self.scale * float(np.sqrt(_ratio(total[0], total[1])))


def _array(value: Any) -> np.ndarray:
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def _field(batch: Mapping[str, Any], name: str) -> np.ndarray:
    if name not in batch:
        raise InputError(f"a metric needs the field {name!r}, but a batch has {', '.join(batch)}")
    return _array(batch[name])


def _same_length(metric: object, outputs: int, wanted: int) -> None:
    if outputs != wanted:
        name = type(metric).__name__
        raise InputError(f"{name} got {outputs} outputs for {wanted} samples; the model must give one per sample")


def _ratio(part: float, whole: float) -> float:
    """NaN where there was nothing to count."""
    return float(part) / float(whole) if whole else float("nan")
