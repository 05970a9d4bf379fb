"""Rows to outputs and gradients back to rows, for a batch's own small table. Knows tensors, not servers.

torch's backward of an embedding costs several times its forward on a CPU; a plain loop over the indices, in their order, is
faster and gives the same bytes on every run. On other devices torch's own functions are used.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional


def lookup(rows: Tensor, index: Tensor) -> Tensor:
    """The row of each index: shape of `index`, then the row."""
    if rows.device.type != "cpu":
        return functional.embedding(index, rows)
    return _Lookup.apply(rows, index)


def bag(rows: Tensor, index: Tensor, offsets: Tensor, mean: bool) -> Tensor:
    """The sum or mean of rows index[offsets[i]] … index[offsets[i + 1] - 1], one line per bag; zeros where it is empty."""
    if rows.device.type != "cpu":
        return functional.embedding_bag(index, rows, offsets[:-1], mode="mean" if mean else "sum")
    return _Bag.apply(rows, index, offsets, mean)


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape, ctx.dtype = rows.shape, rows.dtype
        return functional.embedding(index, rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        out = torch.zeros(ctx.shape, dtype=ctx.dtype)
        scatter(index.reshape(-1).numpy(), grad.reshape(-1, ctx.shape[1]).contiguous().numpy(), out.numpy())
        return out, None


class _Bag(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, index: Tensor, offsets: Tensor, mean: bool) -> Tensor:
        ctx.save_for_backward(index, offsets)
        ctx.shape, ctx.dtype, ctx.mean = rows.shape, rows.dtype, mean
        out = rows.new_zeros(len(offsets) - 1, rows.shape[1])
        gather_bags(rows.detach().numpy(), index.numpy(), offsets.numpy(), mean, out.numpy())
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        index, offsets = ctx.saved_tensors
        out = torch.zeros(ctx.shape, dtype=ctx.dtype)
        scatter_bags(index.numpy(), offsets.numpy(), ctx.mean, grad.contiguous().numpy(), out.numpy())
        return out, None, None, None


_jit = numba.njit(cache=True, nogil=True, error_model="numpy")


@_jit
def scatter(index: np.ndarray, grad: np.ndarray, out: np.ndarray) -> None:
    for i in range(index.size):
        row = index[i]
        for c in range(out.shape[1]):
            out[row, c] += grad[i, c]


@_jit
def gather_bags(rows: np.ndarray, index: np.ndarray, offsets: np.ndarray, mean: bool, out: np.ndarray) -> None:
    dim = out.shape[1]
    for i in range(out.shape[0]):
        if dim == 2:
            # Sums that stay in registers: the weights of two classes, a whole model in itself.
            first, second = out[i, 0], out[i, 1]
            for j in range(offsets[i], offsets[i + 1]):
                first += rows[index[j], 0]
                second += rows[index[j], 1]
            out[i, 0], out[i, 1] = first, second
        else:
            for j in range(offsets[i], offsets[i + 1]):
                for c in range(dim):
                    out[i, c] += rows[index[j], c]
        if mean and offsets[i + 1] > offsets[i]:
            share = np.float32(1) / np.float32(offsets[i + 1] - offsets[i])
            for c in range(out.shape[1]):
                out[i, c] *= share


@_jit
def scatter_bags(index: np.ndarray, offsets: np.ndarray, mean: bool, grad: np.ndarray, out: np.ndarray) -> None:
    for i in range(grad.shape[0]):
        count = offsets[i + 1] - offsets[i]
        share = np.float32(1) / np.float32(count) if mean and count > 0 else np.float32(1)
        if out.shape[1] == 2:
            first, second = grad[i, 0] * share, grad[i, 1] * share
            for j in range(offsets[i], offsets[i + 1]):
                out[index[j], 0] += first
                out[index[j], 1] += second
            continue
        for j in range(offsets[i], offsets[i + 1]):
            row = index[j]
            for c in range(out.shape[1]):
                out[row, c] += grad[i, c] * share
