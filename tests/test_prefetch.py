"""Batches are made ahead: while somebody waits, or in a thread once they take long. Their order is always the same."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from umiak.trainer import prefetch
from umiak.trainer.prefetch import Prefetch


def counted(made: list[int], count: int, seconds: float = 0.0) -> Iterator[int]:
    for number in range(count):
        time.sleep(seconds)
        made.append(number)
        yield number


def taken(items: Prefetch[int]) -> list[int]:
    found = []
    while (item := items.next()) is not None:
        found.append(item)
        items.ahead()
    return found


def test_an_item_is_made_while_somebody_waits_and_no_more_than_one() -> None:
    made: list[int] = []
    items = Prefetch(counted(made, 5))
    assert items.next() == 0 and made == [0]
    items.ahead()
    items.ahead()
    assert made == [0, 1]
    assert taken(items) == [1, 2, 3, 4]
    assert items.next() is None and items.next() is None
    items.close()


def test_items_that_take_long_are_made_in_a_thread_in_the_same_order() -> None:
    made: list[int] = []
    items = Prefetch(counted(made, 30, 2 * prefetch.LONG_SECONDS))
    assert taken(items) == list(range(30))
    assert items._thread is not None
    items.close()
    assert not items._thread.is_alive()


def test_a_thread_that_is_ahead_ends_when_nobody_wants_its_items() -> None:
    before = threading.active_count()
    made: list[int] = []
    items = Prefetch(counted(made, 10_000, 2 * prefetch.LONG_SECONDS))
    while items._thread is None:
        items.next()
    items.close()
    assert threading.active_count() == before
    assert len(made) < 20


@pytest.mark.parametrize("seconds", [0.0, 2 * prefetch.LONG_SECONDS])
def test_an_error_is_raised_where_its_item_would_have_come(seconds: float) -> None:
    def failing() -> Iterator[int]:
        yield from counted([], 10, seconds)
        raise ValueError("the eleventh")

    items = Prefetch(failing())
    for number in range(10):
        assert items.next() == number
        items.ahead()
    for _ in range(2):
        with pytest.raises(ValueError, match="the eleventh"):
            items.next()
    items.close()


def test_the_thread_of_a_trainer_that_has_a_seat_may_run_anywhere() -> None:
    cores = os.sched_getaffinity(0)
    seen: list[set[int]] = []

    def slow() -> Iterator[int]:
        for number in range(10):
            time.sleep(2 * prefetch.LONG_SECONDS)
            seen.append(os.sched_getaffinity(0))
            yield number

    items = Prefetch(slow())
    try:
        os.sched_setaffinity(0, {min(cores)})
        assert taken(items) == list(range(10))
    finally:
        os.sched_setaffinity(0, cores)
        items.close()
    assert seen[0] == {min(cores)} and seen[-1] == cores
