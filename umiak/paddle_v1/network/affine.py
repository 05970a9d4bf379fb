"""Sums of products with a bias and an activation: what fc and mixed layers are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from umiak.paddle_v1.network.gradients import add, add_product

FUSED = ("linear", "tanh", "sigmoid", "relu")
"""Activations that are computed in place here, and whose slope is known from their result."""

OTHERS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: x.softmax(1),
    "exponential": torch.exp,
    "log": torch.log,
    "abs": torch.abs,
    "square": torch.square,
}
"""Activations that torch computes and derives by itself."""

ACTIVATIONS = (*FUSED, *OTHERS)


def affine(
    inputs: Sequence[Tensor], weights: Sequence[Tensor], others: Sequence[Tensor], bias: Tensor | None, activation: str
) -> Tensor:
    """activation(Σ input @ weight + Σ others + bias). A weight that is a transposed view must be given as it is stored."""
    return _Affine.apply(activation, bias, len(inputs), *inputs, *weights, *others)


class _Affine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, activation: str, bias: Tensor | None, count: int, *tensors: Tensor) -> Tensor:
        inputs, weights, others = tensors[:count], tensors[count : 2 * count], tensors[2 * count :]
        if count:
            out = inputs[0] @ weights[0]
        else:
            out = others[0].clone() if len(others) == 1 else others[0] + others[1]
            others = others[2:]
        for x, weight in zip(inputs[1:], weights[1:], strict=True):
            out.addmm_(x, weight)
        for other in others:
            out.add_(other)
        if bias is not None:
            out.add_(bias.view(-1))
        if activation != "linear":
            getattr(out, f"{activation}_")()
        ctx.activation, ctx.count = activation, count
        ctx.save_for_backward(out, bias, *tensors[: 2 * count])
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        out, bias, *tensors = ctx.saved_tensors
        count, needs = ctx.count, ctx.needs_input_grad
        slope = _slope(ctx.activation, grad, out)
        given: list[Tensor | None] = [None] * len(needs)
        if bias is not None and needs[1]:
            given[1] = add(bias, slope.sum(0))
        for number in range(count):
            x, weight = tensors[number], tensors[count + number]
            if needs[3 + number]:
                given[3 + number] = slope @ weight.t()
            if needs[3 + count + number]:
                given[3 + count + number] = add_product(weight, x.t(), slope)
        for number in range(3 + 2 * count, len(needs)):
            given[number] = slope if needs[number] else None
        return tuple(given)


def _slope(activation: str, grad: Tensor, out: Tensor) -> Tensor:
    aten = torch.ops.aten
    if activation == "tanh":
        return aten.tanh_backward(grad, out)
    if activation == "sigmoid":
        return aten.sigmoid_backward(grad, out)
    if activation == "relu":
        return aten.threshold_backward(grad, out, 0)
    return grad
