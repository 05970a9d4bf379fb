"""Functions of sequences without padding: context windows, and one line from each of many."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from umiak.paddle_v1 import segments


def context(lines: Tensor, offsets: Tensor, start: int, length: int) -> Tensor:
    """Each line's neighbours from `start` on, side by side; zeros beyond the ends of its sequence."""
    return _Context.apply(lines, offsets, start, length)


def largest(lines: Tensor, offsets: Tensor) -> Tensor:
    """Of each column, the maximum over each sequence. The gradient goes to the first line that has it."""
    return _Largest.apply(lines, offsets)


def total(lines: Tensor, offsets: Tensor, mean: bool) -> Tensor:
    return _Total.apply(lines, offsets, mean)


class _Context(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lines: Tensor, offsets: Tensor, start: int, length: int) -> Tensor:
        ctx.save_for_backward(offsets)
        ctx.start, ctx.length = start, length
        out = lines.new_empty(len(lines), lines.shape[1] * length)
        segments.windows(lines.detach().contiguous().numpy(), offsets.numpy(), start, length, out.numpy())
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (offsets,) = ctx.saved_tensors
        out = grad.new_empty(len(grad), grad.shape[1] // ctx.length)
        segments.add_windows(grad.contiguous().numpy(), offsets.numpy(), ctx.start, ctx.length, out.numpy())
        return out, None, None, None


class _Largest(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lines: Tensor, offsets: Tensor) -> Tensor:
        out = lines.new_empty(len(offsets) - 1, lines.shape[1])
        where = torch.empty(out.shape, dtype=torch.int32)
        segments.largest(lines.detach().contiguous().numpy(), offsets.numpy(), out.numpy(), where.numpy())
        ctx.save_for_backward(where)
        ctx.lines = len(lines)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (where,) = ctx.saved_tensors
        out = grad.new_zeros(ctx.lines, grad.shape[1])
        segments.to_largest(grad.contiguous().numpy(), where.numpy(), out.numpy())
        return out, None


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lines: Tensor, offsets: Tensor, mean: bool) -> Tensor:
        ctx.save_for_backward(offsets)
        ctx.lines, ctx.mean = len(lines), mean
        out = lines.new_empty(len(offsets) - 1, lines.shape[1])
        segments.sums(lines.detach().contiguous().numpy(), offsets.numpy(), mean, out.numpy())
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (offsets,) = ctx.saved_tensors
        out = grad.new_empty(ctx.lines, grad.shape[1])
        segments.spread(grad.contiguous().numpy(), offsets.numpy(), ctx.mean, out.numpy())
        return out, None, None
