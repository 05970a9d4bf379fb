"""A linear layer for inputs of any width: on a CPU, products of matrices whose lines begin anywhere are slow.

26 embeddings of 16 beside 13 numbers are 429 inputs: torch's layer is slower with them than with 432. Here the weight is turned
around once per batch, and the gradient of the inputs has whole cache lines.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

LINE = 16
"""Floats of a cache line."""
WORTH = 1 << 23
"""Of so many multiplications on, this spares more than its calls cost."""


class Linear(nn.Linear):
    """torch.nn.Linear, but faster on a CPU when `in_features` is not a multiple of 16."""

    def forward(self, input: Tensor) -> Tensor:
        worth = self.in_features % LINE and input.numel() * self.out_features >= WORTH
        if not worth or input.dim() != 2 or input.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
            return super().forward(input)
        return _Odd.apply(input, self.weight, self.bias)


class _Odd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lines: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(lines, weight)
        turned = weight.t().contiguous()
        return lines @ turned if bias is None else torch.addmm(bias, lines, turned)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        lines, weight = ctx.saved_tensors
        of_lines = of_weight = of_bias = None
        if ctx.needs_input_grad[0] and torch.is_grad_enabled():
            of_lines = grad @ weight  # somebody wants gradients of gradients
        elif ctx.needs_input_grad[0]:
            width = lines.shape[1]
            of_lines = grad.new_empty(len(grad), -(-width // LINE) * LINE)[:, :width]
            torch.mm(grad, weight, out=of_lines)
        if ctx.needs_input_grad[1]:
            of_weight = grad.t() @ lines
        if ctx.needs_input_grad[2]:
            of_bias = grad.sum(0)
        return of_lines, of_weight, of_bias
