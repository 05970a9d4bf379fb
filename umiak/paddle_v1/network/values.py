"""What flows between the layers of a v1 network: lines end to end, and where each sequence begins. Computes nothing.

A batch's field says how deep it is nested, not what it means: the same Ragged is a sequence of ids to an embedding and one
sparse vector per sample to a fully connected layer. So a data layer is read anew for each kind of use.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from umiak.data.columns import Ragged
from umiak.errors import InputError

WEIGHTS = ".weights"
"""What the name of a field ends with that holds the values of a sparse vector beside its ids."""


class Bags(NamedTuple):
    """Sparse vectors: line i has ids[offsets[i]:offsets[i + 1]], each counting 1 or its own weight. Ids may repeat."""

    ids: Tensor
    offsets: Tensor
    weights: Tensor | None = None


class Value(NamedTuple):
    """A layer's output: vectors [lines, size] or ids [lines], and the offsets of its sequences, outermost first.

    Without offsets a line is a sample. `logits` are the numbers a softmax was taken of, for a cost that wants its logarithm.
    """

    data: Tensor
    levels: tuple[Tensor, ...] = ()
    logits: Tensor | None = None


class Sparse(NamedTuple):
    """A data layer's sparse vectors."""

    data: Bags
    levels: tuple[Tensor, ...] = ()


def lines(value: Value | Sparse) -> int:
    return len(value.data.offsets) - 1 if isinstance(value.data, Bags) else len(value.data)


def ids(field: Any, name: str, size: int | None) -> Value:
    """A field as ids, one per line; below `size` if there is one."""
    values, levels = _peel(field)
    if values.dtype != torch.int64 or values.dim() != 1:
        raise InputError(
            f"data layer {name!r} is used as ids, but its provider gives vectors: declare integer_value for it"
        )
    if size is not None:
        _check_ids(values, name, size)
    return Value(values, levels)


def vectors(field: Any, weights: Any, name: str, size: int) -> Value | Sparse:
    """A field as vectors of `size`; whole numbers in a list are the places of a sparse one."""
    values, levels = _peel(field)
    if values.dtype == torch.int64:
        if not levels:
            raise InputError(
                f"data layer {name!r} is used as a vector, but its provider gives one id: put an embedding between"
            )
        _check_ids(values, name, size)
        return Sparse(Bags(values, levels[-1], None if weights is None else _peel(weights)[0]), levels[:-1])
    if values.dim() == 1:
        values = values[:, None]
    if values.shape[1] != size:
        raise InputError(
            f"data layer {name!r} has size {size}, but its provider gives vectors of {values.shape[1]}: make them agree"
        )
    return Value(values, levels)


def _peel(field: Any) -> tuple[Tensor, tuple[Tensor, ...]]:
    levels = []
    while isinstance(field, Ragged):
        levels.append(field.offsets)
        field = field.values
    if field.device.type != "cpu":
        raise InputError("v1 configs run on the CPU: leave --use_gpu out")
    return field, tuple(levels)


def _check_ids(values: Tensor, name: str, size: int) -> None:
    """Compiled loops trust their ids, so they are looked at here."""
    if len(values) == 0:
        return
    low, high = torch.aminmax(values)
    if int(low) < 0 or int(high) >= size:
        bad = int(low) if int(low) < 0 else int(high)
        raise InputError(
            f"data layer {name!r} has size {size}, but its provider gives the id {bad}: make it larger or fix the provider"
        )
