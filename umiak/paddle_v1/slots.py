"""How the values a provider yields for one slot become a column of a batch.

A column is checked as a whole, which is fast; `complaint` then finds out what is wrong with a single value.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain
from numbers import Integral, Real
from typing import Any

import numpy as np

from umiak.data.columns import Ragged
from umiak.paddle_v1.input_types import DataType, InputType

WEIGHTS = ".weights"
"""Ends the name of the second column of a sparse vector with values."""


def columns(name: str, kind: InputType, values: Sequence[Any]) -> dict[str, Any]:
    """The column of these values, one per sample; for a sparse vector with values the weights beside it.

    Raises TypeError, ValueError or OverflowError if one of them is not of the kind.
    """
    levels = []
    found: list[Any]
    for _ in range(kind.seq_type):
        values, offsets = _opened(values)
        levels.append(offsets)
    if kind.type == DataType.Dense:
        found = [_dense(values, kind.dim)]
    elif kind.type == DataType.Index:
        found = [_ids(values, kind.dim)]
    else:
        flat, offsets = _opened(values)
        if kind.type == DataType.SparseNonValue:
            found = [Ragged(_ids(flat, kind.dim), offsets)]
        else:
            ids, weights = zip(*flat, strict=True) if flat else ((), ())
            found = [Ragged(_ids(ids, kind.dim), offsets), Ragged(np.frombuffer(array("f", weights), "f"), offsets)]
    for offsets in reversed(levels):
        found = [Ragged(part, offsets) for part in found]
    return dict(zip((name, name + WEIGHTS), found, strict=False))


def _opened(values: Sequence[Any]) -> tuple[list[Any], np.ndarray]:
    """Lists laid end to end, and where each begins."""
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(list(map(len, values)), out=offsets[1:])
    return list(chain.from_iterable(values)), offsets


def _ids(values: Sequence[Any], dim: int) -> np.ndarray:
    # Unlike NumPy, array refuses what is not a whole number.
    ids = np.frombuffer(array("q", values), np.int64)
    if ids.size and (ids.min() < 0 or ids.max() >= dim):
        raise ValueError
    return ids


def _dense(values: Sequence[Any], dim: int) -> np.ndarray:
    rows = [value.ravel() if isinstance(value, np.ndarray) else value for value in values]
    flat, offsets = _opened(rows)
    if (np.diff(offsets) != dim).any():
        raise ValueError
    return np.frombuffer(array("f", flat), np.float32).reshape(len(values), dim)


def complaint(kind: InputType, value: Any, strict: bool = False, level: int | None = None) -> str | None:
    """What is wrong with one sample's value; `strict` also refuses an id that comes twice, as check=True did."""
    level = kind.seq_type if level is None else level
    if value is None:
        return f"is missing where {kind} is wanted"
    if level:
        return _listed(value, f"{kind} wants a list") or next(
            (wrong for item in value if (wrong := complaint(kind, item, strict, level - 1))), None
        )
    if kind.type == DataType.Index:
        return _id(kind, value)
    if wrong := _listed(value, f"{kind} wants a list"):
        return wrong
    if kind.type == DataType.Dense:
        return _numbers(kind, value)
    pairs = kind.type == DataType.SparseValue
    for item in value:
        if pairs and not (isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[1], Real)):
            return f"holds {_told(item)} where {kind} wants pairs (id, number)"
        if wrong := _id(kind, item[0] if pairs else item):
            return wrong
    if strict and len({item[0] if pairs else item for item in value}) < len(value):
        return "holds an id twice, which check=True refuses"
    return None


def _listed(value: Any, wants: str) -> str | None:
    if isinstance(value, str | bytes) or not (hasattr(value, "__len__") and hasattr(value, "__iter__")):
        return f"is {_told(value)} where {wants}"
    return None


def _id(kind: InputType, value: Any) -> str | None:
    if not isinstance(value, Integral):
        return f"is or holds {_told(value)} where {kind} wants whole numbers"
    return None if 0 <= value < kind.dim else f"has the id {value}, which is not within 0 … {kind.dim - 1} of {kind}"  # type: ignore[operator]


def _numbers(kind: InputType, value: Any) -> str | None:
    items = value.ravel() if isinstance(value, np.ndarray) else value
    for item in items:
        if not isinstance(item, Real):
            return f"holds {_told(item)} where {kind} wants numbers"
    return None if len(items) == kind.dim else f"has {len(items)} numbers where {kind} wants {kind.dim}"


def _told(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__} {value!r:.40}"
