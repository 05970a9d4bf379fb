"""The costs of a v1 network: one number per line, summed over lines and samples and never divided."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional

from umiak.paddle_v1.graph import Layer
from umiak.paddle_v1.network.layers import LABELS, VECTORS, Step, Weights
from umiak.paddle_v1.network.values import Value


class Cost(Step):
    """Inputs: what was predicted, what is right, and optionally what each line counts."""

    use = VECTORS

    def __init__(self, layer: Layer, weights: Weights) -> None:
        super().__init__(layer, weights)
        self.uses[1] = (layer.inputs[1], self.use)
        self.coefficient = float(layer.options.get("coefficient", 1.0))

    def compute(self, values: list[Any]) -> Value:
        levels = self.together(values)
        predicted, right = values[:2]
        # A label or weight may be computed by layers, but costs pass nothing back to them.
        cost = self.cost(predicted, self.dense(right, self.uses[1][0]).detach())
        if len(values) > 2:
            cost = cost * self.dense(values[2], self.uses[2][0]).detach().view(-1)
        return Value(cost if self.coefficient == 1 else cost * self.coefficient, levels)

    def cost(self, predicted: Value, right: Tensor) -> Tensor:
        raise AssertionError(f"{type(self).__name__} does not say what it costs")


class CrossEntropy(Cost):
    """-log of the probability of the right class; from the logits where the probabilities are a softmax, which is exact."""

    use = LABELS

    def cost(self, predicted: Value, right: Tensor) -> Tensor:
        classes = predicted.data.shape[1]
        wrong = right[(right < 0) | (right >= classes)]
        if len(wrong):
            raise self.error(
                f"{self.uses[1][0]!r} gives the label {int(wrong[0])}, but {self.uses[0][0]!r} has {classes} classes, from 0 "
                "on: fix the provider or the size"
            )
        if predicted.logits is not None:
            return functional.cross_entropy(predicted.logits, right, reduction="none")
        return -predicted.data.gather(1, right[:, None]).log().squeeze(1)


class SquareError(Cost):
    """Σ (y - t)² of each line: no half, no mean."""

    def cost(self, predicted: Value, right: Tensor) -> Tensor:
        if predicted.data.shape != right.shape:
            raise self.error(
                f"{self.uses[0][0]!r} has size {predicted.data.shape[1]}, but {self.uses[1][0]!r} has {right.shape[1]}"
            )
        return (predicted.data - right).square().sum(1)


COSTS: dict[str, type[Cost]] = {"cross_entropy": CrossEntropy, "square_error": SquareError}
