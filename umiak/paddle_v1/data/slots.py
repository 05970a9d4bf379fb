"""How the values a provider yields for one slot become a column of a batch.

A column checks just enough to be sure; `complaint` then finds out what is wrong with a single value.
"""

from __future__ import annotations

from array import array
from numbers import Integral, Real
from typing import Any

import numpy as np

from umiak.data.columns import Ragged
from umiak.paddle_v1.data.input_types import DataType, InputType

WEIGHTS = ".weights"
"""Ends the name of the second column of a sparse vector with values."""


class Wrong(Exception):
    """An id that is out of range: the place of its sample among those added, and the id."""

    def __init__(self, place: int, wrong: int) -> None:
        super().__init__(place, wrong)
        self.place, self.id = place, wrong


class Column:
    """One slot of many samples, laid end to end as they come: a value is used while it is still in the cache."""

    def __init__(self, kind: InputType) -> None:
        self.kind = kind
        sparse = kind.type in (DataType.SparseNonValue, DataType.SparseValue)
        self._lengths = [array("q") for _ in range(kind.seq_type + sparse)]
        self._ids = array("q")
        self._floats = array("f")
        self._lists_of_ids = (
            len(self._lengths) == 1 and kind.type != DataType.Dense and kind.type != DataType.SparseValue
        )

    def add(self, value: Any) -> None:
        """Take the value of one more sample; TypeError, ValueError or OverflowError if it is not of the kind."""
        if self._lists_of_ids:
            self._lengths[0].append(len(value))
            # Unlike NumPy, array refuses what is not a whole number.
            if type(value) is list:
                self._ids.fromlist(value)
            else:
                self._ids.extend(value)
        else:
            self._add(value, 0)

    def _add(self, value: Any, level: int) -> None:
        if level < len(self._lengths):
            self._lengths[level].append(len(value))
        if level < self.kind.seq_type:
            for item in value:
                self._add(item, level + 1)
        elif self.kind.type == DataType.Index:
            self._ids.append(value)
        elif self.kind.type == DataType.SparseNonValue:
            self._ids.extend(value)
        elif self.kind.type == DataType.SparseValue:
            for number, weight in value:
                self._ids.append(number)
                self._floats.append(weight)
        else:
            flat = value.ravel() if isinstance(value, np.ndarray) else value
            if len(flat) != self.kind.dim:
                raise ValueError
            self._floats.extend(flat)

    def finish(self, name: str) -> dict[str, Any]:
        """The column; of a sparse vector with values, the weights beside it. Raises Wrong."""
        offsets = [_offsets(lengths) for lengths in self._lengths]
        ids = np.frombuffer(self._ids, np.int64) if self._ids else np.empty(0, np.int64)
        floats = np.frombuffer(self._floats, np.float32) if self._floats else np.empty(0, np.float32)
        if ids.size and (ids.min() < 0 or ids.max() >= self.kind.dim):
            place = int(np.argmax((ids < 0) | (ids >= self.kind.dim)))
            wrong = int(ids[place])
            for inner in reversed(offsets):
                place = int(np.searchsorted(inner, place, "right")) - 1
            raise Wrong(place, wrong)
        dense = self.kind.type == DataType.Dense
        found: list[Any] = [floats.reshape(-1, self.kind.dim) if dense else ids]
        if self.kind.type == DataType.SparseValue:
            found.append(floats)
        for inner in reversed(offsets):
            found = [Ragged(part, inner) for part in found]
        return dict(zip((name, name + WEIGHTS), found, strict=False))


def _offsets(lengths: array[int]) -> np.ndarray:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    if lengths:
        np.cumsum(np.frombuffer(lengths, np.int64), out=offsets[1:])
    return offsets


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
    return None if 0 <= int(value) < kind.dim else out_of_range(kind, int(value))


def out_of_range(kind: InputType, value: int) -> str:
    return f"has the id {value}, which is not within 0 … {kind.dim - 1} of {kind}"


def _numbers(kind: InputType, value: Any) -> str | None:
    items = value.ravel() if isinstance(value, np.ndarray) else value
    for item in items:
        if not isinstance(item, Real):
            return f"holds {_told(item)} where {kind} wants numbers"
    return None if len(items) == kind.dim else f"has {len(items)} numbers where {kind} wants {kind.dim}"


def _told(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__} {value!r:.40}"
