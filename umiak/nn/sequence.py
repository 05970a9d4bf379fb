"""Functions of sequences without padding, end to end as in a Ragged: context windows, and one line from each of many.

torch has the parts to build them from, but masks and scattered gradients are slow on a CPU, where these are plain loops. On
other devices torch's parts are used.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from umiak.errors import InputError
from umiak.nn import segments


def context(lines: Tensor, offsets: Tensor, start: int, length: int) -> Tensor:
    """Put each line's `length` neighbours, from `start` on, side by side, with zeros beyond the ends of its sequence."""
    if length < 1:
        raise InputError(f"context: length must be at least 1, not {length}")
    if lines.device.type != "cpu":
        return _context_elsewhere(lines, offsets, start, length)
    _check("context", lines, offsets)
    return _Context.apply(lines, offsets, start, length)


def largest(lines: Tensor, offsets: Tensor) -> Tensor:
    """The maximum of each column over each sequence, or 0 for an empty one. The gradient goes to the first line that has it."""
    if lines.device.type != "cpu":
        return _largest_elsewhere(lines, offsets)
    _check("largest", lines, offsets)
    return _Largest.apply(lines, offsets)


def total(lines: Tensor, offsets: Tensor, mean: bool) -> Tensor:
    """The sum or mean over each sequence."""
    return _Total.apply(lines, offsets, mean)


def _check(function: str, lines: Tensor, offsets: Tensor) -> None:
    """The loops look at no bounds."""
    if lines.dim() != 2 or offsets.dtype != torch.int64 or offsets.dim() != 1 or int(offsets[-1]) != len(lines):
        raise InputError(
            f"{function} needs a matrix with a line per value of a Ragged, and its offsets: {tuple(lines.shape)} lines do not "
            f"fit offsets that end with {offsets[-1:].tolist()}"
        )


def _context_elsewhere(lines: Tensor, offsets: Tensor, start: int, length: int) -> Tensor:
    owner = torch.repeat_interleave(offsets[1:] - offsets[:-1])
    window = torch.arange(start, start + length, device=lines.device)
    place = torch.arange(len(lines), device=lines.device)[:, None] + window
    near = place.clamp(0, len(lines) - 1)
    inside = (place == near) & (owner[near] == owner[:, None])
    return (lines[near] * inside[:, :, None]).flatten(1)


def _largest_elsewhere(lines: Tensor, offsets: Tensor) -> Tensor:
    empty = offsets[1:] == offsets[:-1]
    return torch.segment_reduce(lines, "max", offsets=offsets).masked_fill(empty[:, None], 0)


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
