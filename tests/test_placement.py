"""Which service holds what: how many are used, and that they share evenly."""

from __future__ import annotations

import numpy as np
import pytest

from umiak.pserver.placement import LEAST_BYTES, holders, merge, model_bytes, owned_by

BOTH, DENSE, ROWS, NONE = (True, True), (True, False), (False, True), (False, False)


@pytest.mark.parametrize(
    ("size", "used"),
    [
        (0, [BOTH, NONE, NONE]),
        (LEAST_BYTES, [BOTH, NONE, NONE]),
        (LEAST_BYTES + 1, [BOTH, BOTH, NONE]),
        (9 * LEAST_BYTES, [BOTH, BOTH, BOTH]),
        (None, [BOTH, BOTH, BOTH]),
    ],
)
def test_a_small_model_is_on_few_services(size: int | None, used: list[tuple[bool, bool]]) -> None:
    assert holders([BOTH] * 3, size) == used


def test_dense_and_sparse_services_are_counted_apart() -> None:
    assert holders([DENSE, ROWS, DENSE, ROWS], 1) == [DENSE, ROWS, NONE, NONE]


def test_a_model_with_an_open_table_has_no_size() -> None:
    assert model_bytes(10, [(5, 2), (3, 4)]) == 4 * (10 + 10 + 12)
    assert model_bytes(10, [(5, 2), (None, 4)]) is None


@pytest.mark.parametrize("services", [1, 2, 3, 7, 100])
def test_rows_spread_evenly_and_every_side_agrees_where(services: int) -> None:
    ids = np.arange(-50_000, 50_000) * 8
    unique, counts, index = merge(ids, services)
    assert counts.sum() == ids.size and (unique[index] == ids).all()
    assert abs(counts * services / ids.size - 1).max() < 0.15
    start = 0
    for service, count in enumerate(counts):
        assert owned_by(unique[start : start + count], service, services).all()
        start += count


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 5000])
@pytest.mark.parametrize("different", [1, 3, 10_000])
def test_equal_ids_are_merged_in_order_of_first_appearance(size: int, different: int) -> None:
    ends = [0, -1, 2**63 - 1, -(2**63)]
    known = np.concatenate([np.array(ends, np.int64), np.arange(different) << 20])
    ids = np.random.default_rng(size).choice(known, size)
    unique, counts, index = merge(ids, 1)
    assert unique.tolist() == list(dict.fromkeys(ids.tolist())) and counts.tolist() == [unique.size]
    assert (unique[index] == ids).all()
    grouped, counts, index = merge(ids, 2)
    mine = owned_by(unique, 0, 2)
    assert grouped.tolist() == [*unique[mine].tolist(), *unique[~mine].tolist()]
    assert counts.tolist() == [mine.sum(), (~mine).sum()] and (grouped[index] == ids).all()
