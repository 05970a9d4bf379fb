"""Rows of a weight matrix by id: the embedding, and the product of a sparse vector with a matrix."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from umiak.nn import gather, segments
from umiak.paddle_v1.network.gradients import destination
from umiak.paddle_v1.network.values import Bags


def lookup(rows: Tensor, index: Tensor) -> Tensor:
    """The row of each id."""
    return _Lookup.apply(rows, index)


def product(rows: Tensor, index: Tensor, bags: Bags) -> Tensor:
    """The product of each sparse vector with `rows`; id bags.ids[j] finds its row at index[j]."""
    return _Product.apply(rows, index, bags.offsets, bags.weights)


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(rows, index)
        return functional.embedding(index, rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None]:
        rows, index = ctx.saved_tensors
        out, given = destination(rows)
        gather.scatter(index.numpy(), grad.contiguous().numpy(), out.numpy())
        return given, None


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, index: Tensor, offsets: Tensor, weights: Tensor | None) -> Tensor:
        ctx.save_for_backward(rows, index, offsets, weights)
        out = rows.new_zeros(len(offsets) - 1, rows.shape[1])
        matrix, places, starts = rows.detach().numpy(), index.numpy(), offsets.numpy()
        if weights is None:
            gather.gather_bags(matrix, places, starts, False, out.numpy())
        else:
            segments.gather_weighted(matrix, places, starts, weights.numpy(), out.numpy())
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None, None]:
        rows, index, offsets, weights = ctx.saved_tensors
        out, given = destination(rows)
        places, starts, slopes = index.numpy(), offsets.numpy(), grad.contiguous().numpy()
        if weights is None:
            gather.scatter_bags(places, starts, False, slopes, out.numpy())
        else:
            segments.scatter_weighted(places, starts, weights.numpy(), slopes, out.numpy())
        return given, None, None, None
