"""Metrics: their values, and that totals of several trainers add up to the value over all samples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from umiak.errors import InputError
from umiak.nn.metrics import AUC, RMSE, ClassificationError


def measure(metric: Any, *batches: tuple[Any, dict[str, Any]]) -> float:
    total = np.zeros(metric.size)
    for output, batch in batches:
        metric.add(total, output, batch)
    return metric.value(total)


def test_classification_error_counts_wrong_classes() -> None:
    scores = torch.tensor([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [0.0, 1.0, 5.0], [9.0, 1.0, 5.0]], requires_grad=True)
    assert measure(ClassificationError(), (scores, {"label": torch.tensor([0, 1, 1, 0])})) == 0.25


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_classification_error_of_one_score_asks_for_its_sign(shape: tuple[int, ...]) -> None:
    scores = torch.tensor([0.5, -0.5, 2.0, -2.0]).reshape(shape)
    assert measure(ClassificationError("y"), (scores, {"y": torch.tensor([1.0, 0.0, 0.0, 0.0]).reshape(shape)})) == 0.25


def exact_auc(scores: np.ndarray, labels: np.ndarray) -> float:
    positive, negative = scores[labels == 1][:, None], scores[labels == 0][None]
    return float(((positive > negative) + 0.5 * (positive == negative)).mean())


@pytest.mark.parametrize("form", ["logit", "two logits", "probability"])
def test_auc_is_the_chance_of_the_right_order(form: str) -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 2_000)
    logits = (labels + random.normal(size=2_000)).astype(np.float32)
    outputs = {
        "logit": torch.from_numpy(logits),
        "two logits": torch.stack([torch.full((2_000,), 3.0), torch.from_numpy(logits) + 3], 1),
        "probability": torch.from_numpy(logits).sigmoid(),
    }
    value = measure(AUC(logits=form != "probability"), (outputs[form], {"label": torch.from_numpy(labels)}))
    assert value == pytest.approx(exact_auc(logits, labels), abs=1e-3)


def test_auc_of_perfect_reversed_and_equal_scores() -> None:
    labels = {"label": torch.tensor([0, 0, 1, 1])}
    for scores, expected in (([-99.0, -9.0, 9.0, 99.0], 1.0), ([9.0, 8.0, -8.0, -9.0], 0.0), ([1.0] * 4, 0.5)):
        assert measure(AUC(), (torch.tensor(scores), labels)) == expected


def test_rmse_is_scaled() -> None:
    output, batch = torch.tensor([[1.0], [5.0]]), {"target": torch.tensor([1.0, 1.0])}
    assert measure(RMSE(scale=0.5), (output, batch)) == pytest.approx(math.sqrt(8) / 2)


@pytest.mark.parametrize("metric", [ClassificationError(), AUC(), RMSE("label")])
def test_totals_of_trainers_add_up_to_the_whole(metric: Any) -> None:
    random = np.random.default_rng(0)
    output, label = torch.from_numpy(random.normal(size=300)), torch.from_numpy(random.integers(0, 2, 300))
    parts = []
    for trainer in range(3):
        total = np.zeros(metric.size)
        for begin in range(trainer * 100, (trainer + 1) * 100, 40):
            chosen = slice(begin, min(begin + 40, (trainer + 1) * 100))
            metric.add(total, output[chosen], {"label": label[chosen]})
        parts.append(total)
    whole = measure(metric, (output, {"label": label}))
    assert metric.value(sum(parts)) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("metric", [ClassificationError(), AUC(), RMSE()])
def test_nothing_measured_is_not_a_number(metric: Any) -> None:
    assert math.isnan(metric.value(np.zeros(metric.size)))


@pytest.mark.parametrize(
    ("metric", "output", "message"),
    [
        (RMSE("stars"), torch.zeros(2), "needs the field 'stars', but a batch has label"),
        (RMSE("label"), torch.zeros(3), "RMSE got 3 outputs for 2 samples"),
        (ClassificationError(), torch.zeros(3, 2), "ClassificationError got 3 outputs for 2 samples"),
        (AUC(), torch.zeros(2, 3), "AUC is for two classes, but the output has 3 scores"),
        (AUC(logits=False), torch.tensor([0.5, 1.5]), "needs probabilities from 0 to 1"),
        (AUC(), torch.tensor([0.5, math.nan]), "an output of the model is not a number"),
    ],
)
def test_what_cannot_be_measured_is_told(metric: Any, output: torch.Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        measure(metric, (output, {"label": torch.tensor([0, 1])}))
