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
