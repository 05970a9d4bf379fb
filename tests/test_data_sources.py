"""Providers: a user's generator function as a source of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

from umiak.data import Columns, Ragged, Shard, batch_provider, provider
from umiak.errors import InputError, RetryError

SIZE = 103


def numbers() -> Iterator[dict[str, Any]]:
    for i in range(SIZE):
        yield {"i": i, "list": [i] * (i % 3)}


def numbers_of(shard: Shard) -> Iterator[dict[str, Any]]:
    for i in range(shard.index, SIZE, shard.count):
        yield {"i": i, "list": [i] * (i % 3)}


def order(source: Any, size: int, shard: Shard, seed: int | None, start: int = 0) -> list[list[int]]:
    return [batch["i"].tolist() for batch in source.batches(size, shard, seed, start)]


SOURCES = {
    "in memory": lambda: provider(numbers),
    "in memory, sharded by the user": lambda: provider(numbers_of),
    "through a pool": lambda: provider(numbers, pool=20),
    "through a pool smaller than a batch": lambda: provider(numbers_of, pool=2),
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("seed", [None, 5])
def test_shards_cover_every_sample_exactly_once(name: str, seed: int | None) -> None:
    parts = [order(SOURCES[name](), 7, Shard(index, 4), seed) for index in range(4)]
    assert sorted(i for part in parts for batch in part for i in batch) == list(range(SIZE))
    for part in parts:
        assert {len(batch) for batch in part[:-1]} == {7}, "only the last batch may be short"


@pytest.mark.parametrize("name", SOURCES)
def test_batches_depend_on_size_shard_and_seed_alone(name: str) -> None:
    source = SOURCES[name]()
    first = order(source, 7, Shard(1, 2), 5)
    assert order(source, 7, Shard(1, 2), 6) != first
    assert order(source, 7, Shard(1, 2), 5) == first
    assert order(SOURCES[name](), 7, Shard(1, 2), 5) == first
    assert order(source, 7, Shard(1, 2), 5, start=3) == first[3:]


@pytest.mark.parametrize("name", SOURCES)
def test_without_a_seed_samples_keep_their_order(name: str) -> None:
    assert [*chain(*order(SOURCES[name](), 7, Shard(1, 4), None))] == list(range(1, SIZE, 4))


@pytest.mark.parametrize("name", SOURCES)
def test_lists_arrive_as_ragged_and_numbers_as_columns(name: str) -> None:
    for batch in SOURCES[name]().batches(7, Shard(), 5):
        assert isinstance(batch["list"], Ragged)
        assert batch["list"].lengths.tolist() == (batch["i"] % 3).tolist()


def test_a_pool_shuffles_only_nearby_samples() -> None:
    batches = order(provider(numbers, pool=20), 5, Shard(), 5)
    assert all(abs(i - position) < 40 for position, i in enumerate(chain(*batches)))
    assert sorted(chain(*batches[:4])) == list(range(20))


def test_a_provider_in_memory_runs_once_and_one_with_a_pool_on_every_pass() -> None:
    calls = []

    def counted() -> Iterator[dict[str, Any]]:
        calls.append(1)
        yield from numbers()

    for source, expected in ((provider(counted), 1), (provider(counted, pool=9), 3)):
        calls.clear()
        for seed in range(3):
            order(source, 7, Shard(), seed)
        assert len(calls) == expected


def test_a_trainer_without_samples_has_no_batches() -> None:
    def two() -> Iterator[dict[str, int]]:
        yield from ({"i": i} for i in range(2))

    for source in (provider(two), provider(two, pool=5)):
        assert order(source, 4, Shard(2, 3), 5) == []


def test_a_provider_without_any_sample_is_an_error() -> None:
    def nothing() -> Iterator[dict[str, int]]:
        yield from ()

    with pytest.raises(InputError, match=r"nothing .*yields no samples"):
        order(provider(nothing), 4, Shard(2, 3), 5)


def test_sources_survive_the_trip_to_another_process() -> None:
    source = cloudpickle.loads(cloudpickle.dumps(provider(lambda: iter([{"i": 4}]))))
    assert order(source, 2, Shard(), 1) == [[4]]


@pytest.mark.parametrize("make", [provider, partial(provider, pool=5), batch_provider])
def test_an_exception_names_the_line_of_the_user(make: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "config.py"
    file.write_text("def train():\n    yield from ()\n    parse('x')\n\ndef parse(text):\n    int(text)\n")
    space: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), space)
    with pytest.raises(InputError) as caught:
        order(make(space["train"]), 4, Shard(), 5)
    assert str(caught.value) == f"train raised ValueError: invalid literal for int() with base 10: 'x' at {file}:6"


def test_a_lost_peer_inside_user_code_is_not_blamed_on_the_user() -> None:
    def remote() -> Iterator[dict[str, Any]]:
        yield {"i": 1}
        raise RetryError("the store went away")

    with pytest.raises(RetryError, match="the store went away"):
        order(provider(remote), 4, Shard(), 5)


def test_a_wrong_sample_names_its_number_and_the_function() -> None:
    def mixed() -> Iterator[dict[str, Any]]:
        yield {"i": 1}
        yield {"i": "one"}

    for source in (provider(mixed), provider(mixed, pool=5)):
        with pytest.raises(InputError, match=r"field 'i' of sample 1 of mixed \(test_data_sources.py\) is str 'one'"):
            order(source, 4, Shard(), 5)


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (numbers(), "a provider is a generator function, not generator; pass the function"),
        (lambda a, b: None, r"takes \(a, b\); a provider takes nothing or \(shard\)"),
    ],
)
def test_what_is_no_provider_is_refused(fn: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        provider(fn)


def test_a_function_that_yields_nothing_iterable_is_refused() -> None:
    with pytest.raises(InputError, match="returned NoneType; it must yield"):
        order(provider(lambda: None), 4, Shard(), 5)  # type: ignore[arg-type, return-value]


def test_a_pool_needs_room() -> None:
    with pytest.raises(InputError, match="pool must be at least 1"):
        provider(numbers, pool=0)


def ready(shard: Shard, seed: int | None) -> Iterator[dict[str, Any]]:
    table = Columns.from_samples(numbers_of(shard))
    return table.batches(10, Shard(), seed)


def test_ready_batches_are_passed_on() -> None:
    own = batch_provider(ready)
    assert order(own, 1, Shard(0, 2), 3, start=1) == order(own, 1, Shard(0, 2), 3)[1:]
    assert order(own, 1, Shard(0, 2), 3) != order(own, 1, Shard(0, 2), 4)
    dealt = batch_provider(lambda: ready(Shard(), None))
    parts = [order(dealt, 1, Shard(index, 3), 3) for index in range(3)]
    assert [part[0][0] for part in parts] == [0, 10, 20]
    assert sorted(i for part in parts for batch in part for i in batch) == list(range(SIZE))
    assert order(dealt, 1, Shard(1, 3), 3, start=1) == parts[1][1:]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"a": np.zeros(2), "b": np.zeros(3)}, "batch 0 of .*: the fields differ in their number of samples: a 2, b 3"),
        ({"a": np.zeros(2), "b": 3}, "every field must be an array"),
        ({"a": np.zeros(0)}, "is empty"),
        (np.zeros(2), "must be a dict of arrays, not ndarray"),
    ],
)
def test_a_malformed_batch_is_named(batch: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(batch_provider(lambda: iter([batch])).batches(1, Shard(), None))
