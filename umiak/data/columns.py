"""A table in memory: named columns with one entry per sample, and batches cut from it. Reading files is readers.py's work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from umiak.data.samples import CHUNK, Schema
from umiak.errors import InputError
from umiak.spec.config import Shard


class Ragged(NamedTuple):
    """Lists of different lengths, one per sample, stored end to end: sample i has `values[offsets[i]:offsets[i + 1]]`.

    `offsets` has one entry more than there are samples. In a table both are NumPy arrays, in a model torch tensors. `values`
    may itself be a Ragged, for lists of lists.
    """

    values: Any
    offsets: Any

    @property
    def lengths(self) -> Any:
        return self.offsets[1:] - self.offsets[:-1]


class Columns:
    """A table in memory: named columns of equal length, each an array whose first axis is the samples, or a Ragged.

    It is also a source of batches.
    """

    def __init__(self, columns: Mapping[str, np.ndarray | Ragged]) -> None:
        if not columns:
            raise InputError("a table needs at least one column")
        self._columns = dict(columns)
        lengths = {name: count(column) for name, column in self._columns.items()}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise InputError(f"columns must have one entry per sample, but their lengths differ: {told}")
        for name, column in self._columns.items():
            if isinstance(column, Ragged):
                _check_ragged(name, column)
        self._length = next(iter(lengths.values()))

    @classmethod
    def from_samples(cls, samples: Iterable[Mapping[str, Any]]) -> Columns:
        """Build a table from samples: numbers become a 1-D column, arrays are stacked, lists become a Ragged."""
        return gather((f"sample {number}", sample) for number, sample in enumerate(samples))

    @classmethod
    def concat(cls, parts: Sequence[Columns]) -> Columns:
        """One table after the other; all have the same columns."""
        if len(parts) == 1:
            return parts[0]
        return cls({name: _join([part[name] for part in parts]) for name in parts[0].names})

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, name: str) -> Any:
        return self._columns[name]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._columns)

    def take(self, indices: np.ndarray) -> dict[str, Any]:
        """Return these samples, in this order, as a batch."""
        return {name: _take(column, indices) for name, column in self._columns.items()}

    def run(self, begin: int, end: int) -> Columns:
        """The samples from `begin` to `end`, which share their memory with these."""
        return self._unchecked({name: _run(column, begin, end) for name, column in self._columns.items()}, end - begin)

    def batch(self) -> dict[str, Any]:
        """All samples as a batch."""
        return dict(self._columns)

    @classmethod
    def gathered(cls, parts: Sequence[Columns], indices: np.ndarray) -> Columns:
        """Samples of tables that follow each other, in this order. Every index must be one of a sample: that is not looked at.

        One column after the other, because a column that was just put together is still in the processor's cache.
        """
        names = parts[0].names
        columns = {name: _take(_join([part[name] for part in parts]), indices, checked=False) for name in names}
        return cls._unchecked(columns, len(indices))

    @classmethod
    def _unchecked(cls, columns: dict[str, Any], length: int) -> Columns:
        made = cls.__new__(cls)
        made._columns, made._length = columns, length
        return made

    def batches(self, size: int, shard: Shard, seed: int | None, start: int = 0) -> Iterator[dict[str, Any]]:
        """Yield batches, from number `start` on.

        The whole table is shuffled and then dealt out one sample at a time. So batch k of n trainers together holds the same
        samples as batch k of one trainer whose batches are n times as large.
        """
        order = np.arange(self._length) if seed is None else np.random.default_rng(seed).permutation(self._length)
        return self.cut(order[shard.index :: shard.count], size, start)

    def cut(self, order: np.ndarray, size: int, start: int) -> Iterator[dict[str, Any]]:
        """Batches of the samples in this order, from batch number `start` on."""
        check_size(size)
        for begin in range(start * size, len(order), size):
            yield self.take(order[begin : begin + size])


def gather(samples: Iterable[tuple[str, Mapping[str, Any]]]) -> Columns:
    """A table of (where, sample) pairs; `where` names the sample in errors: its number, or its file and line."""
    schema = Schema()
    parts: list[Columns] = []
    waiting: list[Mapping[str, Any]] = []
    for where, sample in samples:
        schema.check(sample, where)
        waiting.append(sample)
        if len(waiting) == CHUNK:
            parts.append(stack(waiting, schema))
            waiting = []
    if waiting:
        parts.append(stack(waiting, schema))
    if not parts:
        raise InputError("there are no samples to make a table of")
    return Columns.concat(parts)


def stack(samples: Sequence[Mapping[str, Any]], schema: Schema) -> Columns:
    """The table of samples that `schema` has checked."""
    columns: dict[str, np.ndarray | Ragged] = {}
    for name, field in schema.fields.items():
        entries = [sample[name] for sample in samples]
        try:
            if field.ragged:
                offsets = np.zeros(len(entries) + 1, np.int64)
                np.cumsum([len(entry) for entry in entries], out=offsets[1:])
                columns[name] = Ragged(np.array(list(chain.from_iterable(entries)), schema.dtype(name)), offsets)
            else:
                columns[name] = np.array(entries, schema.dtype(name))
        except OverflowError:
            raise InputError(
                f"field {name!r} holds a whole number beyond 64 bits; reduce it with % in the provider"
            ) from None
    return Columns(columns)


def count(column: Any) -> int:
    """The number of samples of a column or a batch's field; works for torch tensors too."""
    return len(column.offsets) - 1 if isinstance(column, Ragged) else len(column)


def check_size(size: int) -> None:
    if size < 1:
        raise InputError(f"a batch holds at least 1 sample, not {size}")


def _take(column: Any, indices: np.ndarray, checked: bool = True) -> Any:
    if not isinstance(column, Ragged):
        return column[indices] if checked else column.take(indices, 0, mode="clip")
    starts = column.offsets[indices]
    lengths = column.offsets[indices + 1] - starts
    offsets = np.zeros(len(indices) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    return Ragged(_take(column.values, np.repeat(starts, lengths) + within, checked), offsets)


def _run(column: Any, begin: int, end: int) -> Any:
    if not isinstance(column, Ragged):
        return column[begin:end]
    offsets = column.offsets[begin : end + 1]
    return Ragged(_run(column.values, int(offsets[0]), int(offsets[-1])), offsets - offsets[0])


def _join(columns: Sequence[np.ndarray | Ragged]) -> np.ndarray | Ragged:
    if len(columns) == 1:
        return columns[0]
    ragged = [column for column in columns if isinstance(column, Ragged)]
    if not ragged:
        return np.concatenate([column for column in columns if not isinstance(column, Ragged)])
    lengths = np.concatenate([column.lengths for column in ragged])
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    # Lists that are all empty say nothing about their type, so they must not decide the type of the whole.
    values = [column.values for column in ragged if count(column.values)] or [ragged[0].values]
    return Ragged(_join(values), offsets)


def _check_ragged(name: str, column: Ragged) -> None:
    offsets = column.offsets
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != count(column.values) or np.any(np.diff(offsets) < 0):
        raise InputError(
            f"column {name!r}: the offsets of a Ragged start at 0, never fall, and end at the number of values"
        )
