"""What files hold, column by column, and what each shard would get: for `umiak data describe`. Reads everything once.

Memory does not grow with the data: distinct values are estimated (HyperLogLog, within about 2 %), and of the frequent values only
a thousand are counted at a time, so that the share of a value may be told too low, never too high.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from umiak.data.streaming.chunks import Index
from umiak.data.streaming.dealing import Deal
from umiak.data.streaming.parts import hashes
from umiak.data.streaming.reading import How, Reader
from umiak.spec.config import Shard

BITS = 12
COUNTED = 1000
Say = Callable[[int, int], None]


class Distinct:
    """HyperLogLog: the number of different values, from the rarest pattern that their hashes showed."""

    def __init__(self) -> None:
        self._ranks = np.zeros(1 << BITS, np.uint8)

    def add(self, hashes: np.ndarray) -> None:
        rest = hashes << np.uint64(BITS) | np.uint64(1 << (BITS - 1))
        # The number of leading zeros, plus one: log2 of a float64 is exact enough above the 52 bits it holds.
        ranks = (64 - np.floor(np.log2(rest.astype(np.float64)))).astype(np.uint8)
        np.maximum.at(self._ranks, (hashes >> np.uint64(64 - BITS)).astype(np.int64), ranks)

    def estimate(self) -> float:
        count = self._ranks.size
        raw = 0.7213 / (1 + 1.079 / count) * count**2 / np.sum(2.0 ** -self._ranks.astype(np.float64))
        empty = int((self._ranks == 0).sum())
        return float(count * np.log(count / empty)) if raw <= 2.5 * count and empty else float(raw)


@dataclass
class Column:
    name: str
    kind: str
    values: int = 0
    """Of a column of lists, the elements of all of them."""
    nulls: int = 0
    least: Any = None
    most: Any = None
    exact: bool = True
    """Whether there were so few different values that all of them have been counted."""
    _distinct: Distinct = field(default_factory=Distinct)
    _frequent: Counter[Any] = field(default_factory=Counter)

    def add(self, column: Any) -> None:
        import pyarrow.compute as pc
        from pyarrow import types

        self.nulls += column.null_count
        if types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type):
            column = pc.list_flatten(column)
        column = column.drop_null()
        if not len(column):
            return
        self.values += len(column)
        ends = pc.min_max(column).as_py()
        self.least = ends["min"] if self.least is None else min(self.least, ends["min"])
        self.most = ends["max"] if self.most is None else max(self.most, ends["max"])
        counts = pc.value_counts(column)
        values = counts.field("values")
        self._distinct.add(hashes(values))
        places = np.argsort(-counts.field("counts").to_numpy())[:COUNTED]
        for place in places:
            self._frequent[values[int(place)].as_py()] += counts.field("counts")[int(place)].as_py()
        self.exact = self.exact and len(values) <= COUNTED and len(self._frequent) <= COUNTED
        if len(self._frequent) > 4 * COUNTED:
            self._frequent = Counter(dict(self._frequent.most_common(COUNTED)))

    @property
    def distinct(self) -> float:
        return len(self._frequent) if self.exact else self._distinct.estimate()

    @property
    def shares(self) -> list[tuple[Any, float]]:
        """The most frequent values, each with its share of all."""
        return [(value, count / self.values) for value, count in self._frequent.most_common(50)]


@dataclass(frozen=True)
class Dealt:
    """What a shard would read in a pass."""

    rows: int
    chunks: int


@dataclass(frozen=True)
class Description:
    index: Index
    columns: list[Column]
    shards: list[Dealt]


def describe(index: Index, shards: int, say: Say = lambda done, total: None) -> Description:
    reader = Reader(index, How(by="batch"))
    columns: dict[str, Column] = {}
    for number in range(len(index.chunks)):
        table = reader.table(number)
        for name in table.column_names:
            column = columns.setdefault(name, Column(name, str(table.schema.field(name).type)))
            column.add(table.column(name))
        say(number + 1, len(index.chunks))
    return Description(index, list(columns.values()), dealt(index.rows, shards))


def dealt(rows: np.ndarray, shards: int) -> list[Dealt]:
    found = []
    for number in range(shards):
        deal = Deal(rows, 1, Shard(number, shards), 0, max(int(rows.sum()), 1))
        found.append(Dealt(len(deal), len(list(deal.pieces(0))) if len(deal) else 0))
    return found


def busiest(columns: Sequence[Column]) -> list[Column]:
    """Columns with a value that is more frequent than an even spread would have it: those whose skew is worth a look."""
    return [column for column in columns if column.values and column.shares[0][1] * column.distinct > 2]
