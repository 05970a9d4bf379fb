"""Tables in memory: what samples become, and how batches are cut from a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from umiak.data import Columns, Ragged, Shard
from umiak.errors import InputError


def lists(column: Ragged) -> list[list[Any]]:
    return [part.tolist() for part in np.split(column.values, column.offsets[1:-1])]


def test_a_sample_type_decides_its_column() -> None:
    table = Columns.from_samples(
        {"count": 3, "price": 1.5, "seen": True, "pixels": np.ones((2, 2)), "words": [1] * n, "weights": [0.5]}
        for n in (2, 2, 2)
    )
    assert len(table) == 3
    assert (table["count"].dtype, table["price"].dtype, table["seen"].dtype) == (np.int64, np.float32, np.int64)
    assert table["pixels"].shape == (3, 2, 2) and table["pixels"].dtype == np.float32
    assert isinstance(table["words"], Ragged), "lists stay Ragged even when all have the same length"
    assert table["words"].values.dtype == np.int64 and table["weights"].values.dtype == np.float32


def test_take_gives_ragged_rows_in_the_order_asked_for() -> None:
    rows = [[1, 2, 3], [], [4], [5, 6]]
    table = Columns.from_samples({"words": row, "label": i} for i, row in enumerate(rows))
    batch = table.take(np.array([3, 1, 0, 3]))
    assert lists(batch["words"]) == [[5, 6], [], [1, 2, 3], [5, 6]]
    assert batch["words"].lengths.tolist() == [2, 0, 3, 2]
    assert batch["label"].tolist() == [3, 1, 0, 3]


def test_tables_larger_than_one_chunk_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("umiak.data.columns.CHUNK", 4)
    rows: list[list[float]] = [[]] * 5 + [[0.5] * n for n in range(6)]
    table = Columns.from_samples({"x": row, "n": len(row)} for row in rows)
    assert lists(table["x"]) == rows
    assert table["x"].values.dtype == np.float32, "chunks of empty lists must not decide the type"
    assert table["n"].tolist() == [len(row) for row in rows]


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([{"a": 1}, {"a": [1]}], "field 'a' of sample 1 is a list, but it was a number"),
        ([{"a": 1}, {"a": 0.5}], "field 'a' of sample 1 is fractional, but it was whole"),
        ([{"a": [1]}, {"a": [0.5]}], "field 'a' of sample 1 is fractional"),
        ([{"a": np.ones(2)}, {"a": np.ones(3)}], r"an array of shape \(3,\), but it was an array of shape \(2,\)"),
        ([{"a": "red"}], "field 'a' of sample 0 is str 'red'"),
        ([{"a": None}], "field 'a' of sample 0 is None"),
        ([{"a": [1, "b"]}], "field 'a' of sample 0 is a list that holds str 'b'"),
        ([{"a": [[1]]}], r"a list that holds list \[1\]"),
        ([{"a": 1, "b": 1}, {"a": 1, "c": 1}], "sample 1 lacks b and also has c"),
        ([{"a": 1}, 7], "sample 1 is int 7; yield a dict"),
        ([{"a": 2**70}], "field 'a' holds a whole number beyond 64 bits"),
        ([{}], "sample 0 has no fields"),
        ([], "no samples"),
    ],
)
def test_a_sample_unlike_the_others_is_named(samples: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Columns.from_samples(samples)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": np.zeros(2), "b": np.zeros(3)}, "lengths differ: a 2, b 3"),
        ({"a": Ragged(np.zeros(3), np.array([0, 2]))}, "column 'a': the offsets"),
        ({"a": Ragged(np.zeros(3), np.array([0, 2, 1, 3]))}, "column 'a': the offsets"),
        ({}, "at least one column"),
    ],
)
def test_columns_that_do_not_fit_together_are_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Columns(columns)


TABLE = Columns({"i": np.arange(103)})


def order(size: int, shard: Shard, seed: int | None, start: int = 0) -> list[list[int]]:
    return [batch["i"].tolist() for batch in TABLE.batches(size, shard, seed, start)]


def test_without_a_seed_batches_follow_the_table() -> None:
    assert order(50, Shard(), None) == [list(range(50)), list(range(50, 100)), [100, 101, 102]]
    assert order(2, Shard(1, 3), None)[:2] == [[1, 4], [7, 10]]


@pytest.mark.parametrize("seed", [None, 5])
def test_shards_cover_every_sample_exactly_once(seed: int | None) -> None:
    seen = [i for index in range(4) for batch in order(7, Shard(index, 4), seed) for i in batch]
    assert sorted(seen) == list(range(103))


def test_the_same_seed_gives_the_same_batches_and_another_seed_others() -> None:
    assert order(7, Shard(1, 2), 5) == order(7, Shard(1, 2), 5)
    assert order(7, Shard(1, 2), 5) != order(7, Shard(1, 2), 6)


def test_three_trainers_together_see_the_batches_of_one() -> None:
    alone = order(15, Shard(), 5)
    together = [order(5, Shard(index, 3), 5) for index in range(3)]
    for number, batch in enumerate(alone):
        assert sorted(batch) == sorted(i for part in together for i in part[number])


def test_start_skips_batches() -> None:
    assert order(7, Shard(1, 2), 5, start=3) == order(7, Shard(1, 2), 5)[3:]
    assert order(7, Shard(1, 2), 5, start=99) == []


def test_a_batch_size_below_one_is_refused() -> None:
    with pytest.raises(InputError, match="at least 1 sample, not 0"):
        next(TABLE.batches(0, Shard(), None))


def test_lists_of_lists_are_taken_and_joined() -> None:
    inner = Ragged(np.arange(10), np.array([0, 2, 5, 5, 9, 10]))
    table = Columns({"x": Ragged(inner, np.array([0, 1, 4, 5]))})
    batch = Columns.concat([table, table]).take(np.array([4, 2]))["x"]
    assert batch.offsets.tolist() == [0, 3, 4]
    assert batch.values.offsets.tolist() == [0, 3, 3, 7, 8]
    assert batch.values.values.tolist() == [2, 3, 4, 5, 6, 7, 8, 9]
