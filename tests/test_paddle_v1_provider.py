"""PyDataProvider2: what a provider declares and yields, and the batches that become of it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from umiak.data.columns import Ragged
from umiak.errors import InputError
from umiak.paddle_v1.data import provider as v1
from umiak.paddle_v1.data.provider import CacheType, Definition, provider
from umiak.paddle_v1.data.source import ProviderSource
from umiak.spec.config import Shard

ALL = Shard()


def source(
    definition: Definition,
    order: tuple[str, ...] = ("x",),
    files: tuple[str, ...] = ("a",),
    is_train: bool = True,
    **args: Any,
) -> ProviderSource:
    made = definition.create(files, order, is_train, args)
    return ProviderSource("demo::process", made, made.kinds("demo::process"))


def yielding(*samples: Any, **options: Any) -> Definition:
    @provider(**options)
    def process(settings: Any, file_name: str) -> Iterator[Any]:
        yield from samples

    return process


def numbers(count: int, **options: Any) -> Definition:
    """Files "0", "1", …: file f yields the numbers from f·count on."""

    @provider(input_types=[v1.integer_value(10**6)], **options)
    def process(settings: Any, file_name: str) -> Iterator[int]:
        yield from range(int(file_name) * count, (int(file_name) + 1) * count)

    return process


def drawn(made: ProviderSource, size: int, shard: Shard = ALL, seed: int | None = 7, start: int = 0) -> list[list[int]]:
    return [batch["x"].tolist() for batch in made.batches(size, shard, seed, start)]


def flat(batches: list[list[int]]) -> list[int]:
    return [number for batch in batches for number in batch]


def nested(column: Any) -> Any:
    """A column as lists of lists."""
    if isinstance(column, Ragged):
        inner = nested(column.values)
        return [inner[a:b] for a, b in zip(column.offsets[:-1], column.offsets[1:], strict=True)]
    return column.tolist()


@pytest.mark.parametrize(
    ("kind", "samples"),
    [
        (v1.dense_vector(2), [[0.5, 1.0], [2.0, 3.0]]),
        (v1.dense_vector_sequence(2), [[[0.5, 1.0]], [], [[2.0, 3.0], [4.0, 5.0]]]),
        (v1.dense_vector_sub_sequence(1), [[[[1.0]], [[2.0], [3.0]]], [[]]]),
        (v1.sparse_binary_vector(9), [[3, 8, 3], [], [0]]),
        (v1.sparse_binary_vector_sequence(9), [[[3, 8], []], [], [[0]]]),
        (v1.sparse_binary_vector_sub_sequence(9), [[[[3, 8], []], [[1]]], [], [[[0]]]]),
        (v1.integer_value(9), [3, 0, 8]),
        (v1.integer_value_sequence(9), [[3, 8, 3], [0]]),
        (v1.integer_sequence(9), [[3], [0, 1]]),
        (v1.integer_value_sub_sequence(9), [[[3, 8], [1]], [[0]]]),
        (v1.integer_value(9, seq_type=v1.SequenceType.SEQUENCE), [[3], [0, 1]]),
    ],
    ids=str,
)
def test_every_input_type_becomes_its_column(kind: v1.InputType, samples: list[Any]) -> None:
    (batch,) = source(yielding(*samples, input_types=[kind]), is_train=False).batches(10, ALL, None)
    assert nested(batch["x"]) == samples


@pytest.mark.parametrize("level", ["", "_sequence", "_sub_sequence"])
def test_a_sparse_vector_with_values_has_its_weights_beside_it(level: str) -> None:
    def deep(value: Any) -> Any:
        return value if not level else [value, value] if level == "_sequence" else [[value], [value, value]]

    kind = getattr(v1, "sparse_vector" + level)(5)
    samples = [deep([(1, 0.5), (3, 2.0)]), deep([]), deep([(0, -1.0)])]
    (batch,) = source(yielding(*samples, input_types=[kind]), is_train=False).batches(10, ALL, None)
    assert nested(batch["x"]) == [deep([1, 3]), deep([]), deep([0])]
    assert nested(batch["x.weights"]) == [deep([0.5, 2.0]), deep([]), deep([-1.0])]


def test_numpy_values_are_taken_too() -> None:
    kinds = [v1.dense_vector(4), v1.sparse_binary_vector(9), v1.integer_value(3)]
    sample = (np.arange(4.0).reshape(2, 2), np.array([2, 3]), np.int32(1))
    (batch,) = source(yielding(sample, input_types=kinds), ("x", "y", "z"), is_train=False).batches(4, ALL, None)
    assert [nested(batch[name]) for name in "xyz"] == [[[0.0, 1.0, 2.0, 3.0]], [[2, 3]], [1]]


def test_types_by_name_are_put_in_the_configs_order_and_dicts_may_be_yielded() -> None:
    kinds = {"label": v1.integer_value(2), "word": v1.integer_value_sequence(9)}
    made = source(
        yielding({"word": [1, 2], "label": 1}, {"label": 0, "word": [3]}, input_types=kinds), ("word", "label")
    )
    assert list(made.kinds) == ["word", "label"]
    (batch,) = made.batches(2, ALL, None)
    assert list(batch) == ["word", "label"] and nested(batch["word"]) == [[1, 2], [3]]


def test_types_in_a_list_belong_to_the_data_layers_in_order() -> None:
    kinds = [v1.integer_value(2), v1.integer_value_sequence(9)]
    (batch,) = source(yielding([1, [4, 5]], input_types=kinds), ("label", "word")).batches(2, ALL, None)
    assert nested(batch["label"]) == [1] and nested(batch["word"]) == [[4, 5]]


def test_the_init_hook_sets_types_and_whatever_the_provider_needs() -> None:
    seen: dict[str, Any] = {}

    def hook(settings: Any, words: dict[str, int], **kwargs: Any) -> None:
        seen.update(kwargs)
        settings.words = words
        settings.input_types = {"x": v1.integer_value(len(words))}
        settings.should_shuffle = False

    @provider(init_hook=hook)
    def process(settings: Any, file_name: str) -> Iterator[dict[str, int]]:
        settings.logger.info("reading %s", file_name)
        for word in ("b", "a"):
            yield {"x": settings.words[word]}

    made = source(process, files=("one", "two"), words={"a": 0, "b": 1})
    assert drawn(made, 4) == [[1, 0, 1, 0]]
    assert seen == {"is_train": True, "input_order": ["x"], "file_list": ["one", "two"]}


def test_training_data_are_shuffled_anew_each_pass_and_test_data_are_not() -> None:
    train, test = (source(numbers(40), files=("0", "1"), is_train=is_train) for is_train in (True, False))
    first, second = drawn(train, 16, seed=1), drawn(train, 16, seed=2)
    assert sorted(flat(first)) == sorted(flat(second)) == list(range(80)) and first != second
    assert [len(batch) for batch in first] == [16] * 5
    assert flat(drawn(test, 16, seed=1)) == list(range(80))


@pytest.mark.parametrize(("said", "shuffles"), [(True, True), ("off", False), (0, False), ("t", True), ("?", True)])
def test_should_shuffle_in_all_the_ways_it_was_written(said: Any, shuffles: bool) -> None:
    made = source(numbers(50, should_shuffle=said), files=("0",))
    assert (flat(drawn(made, 10)) != list(range(50))) == shuffles


OPTIONS = [
    {},
    {"pool_size": 30},
    {"pool_size": 30, "min_pool_size": 8},
    {"cache": CacheType.CACHE_PASS_IN_MEM},
    {"should_shuffle": False},
    {"calc_batch_size": lambda sample: 1 + sample[0] % 3, "pool_size": 30},
    {"calc_batch_size": lambda sample: 1 + sample[0] % 3, "can_over_batch_size": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "+".join(options) or "plain")
def test_trainers_share_the_samples_and_a_replay_gives_the_same_batches(options: dict[str, Any]) -> None:
    made = source(numbers(50, **options), files=("0", "1", "2"))
    parts = [drawn(made, 8, Shard(index, 3)) for index in range(3)]
    assert Counter(flat([flat(part) for part in parts])) == Counter(range(150))
    assert drawn(source(numbers(50, **options), files=("0", "1", "2")), 8, Shard(1, 3), start=2) == parts[1][2:]


def test_a_pool_mixes_files_and_samples_near_each_other() -> None:
    order = flat(drawn(source(numbers(500, pool_size=50), files=("0", "1")), 10))
    assert len(set(order[:100]) & set(range(500))) > 20 and len(set(order[:100]) & set(range(500, 1000))) > 20
    places = {number: place for place, number in enumerate(order)}
    assert max(abs(places[n] - 2 * (n % 500)) for n in range(450)) < 400, "a sample came from far beyond the pool"
    assert order != sorted(order)


def test_cached_samples_are_generated_once_and_shuffled_in_each_pass() -> None:
    calls: list[str] = []

    @provider(input_types=[v1.integer_value(100)], cache=CacheType.CACHE_PASS_IN_MEM)
    def process(settings: Any, file_name: str) -> Iterator[int]:
        calls.append(file_name)
        yield from range(40)

    made = source(process)
    first, second = drawn(made, 8, seed=1), drawn(made, 8, seed=2)
    assert calls == ["a"] and first != second and sorted(flat(first)) == sorted(flat(second))


def test_what_is_cached_does_not_depend_on_the_pass_it_is_read_in() -> None:
    """A restart in pass 5 must find the samples that pass 0 drew at random."""
    import random

    @provider(input_types=[v1.integer_value(10**9)], cache=CacheType.CACHE_PASS_IN_MEM, should_shuffle=False)
    def process(settings: Any, file_name: str) -> Iterator[int]:
        for _ in range(20):
            yield random.randrange(10**9)

    random.seed(5)
    before = drawn(source(process), 8)
    random.seed(6)
    assert drawn(source(process), 8) == before


def weights(batches: list[list[int]]) -> list[int]:
    return [sum(1 + number % 3 for number in batch) for batch in batches]


@pytest.mark.parametrize("pool", [{}, {"pool_size": 40}, {"should_shuffle": False}], ids=str)
def test_calc_batch_size_weighs_samples_and_may_overshoot_unless_told_not_to(pool: dict[str, Any]) -> None:
    def weigh(sample: Any) -> int:
        return 1 + int(sample[0]) % 3

    over = weights(drawn(source(numbers(90, calc_batch_size=weigh, **pool), files=("0",)), 10))
    assert all(10 <= weight <= 12 for weight in over[:-1]) and max(over) > 10
    exact = source(numbers(90, calc_batch_size=weigh, can_over_batch_size=False, **pool), files=("0",))
    assert max(weights(drawn(exact, 10))) <= 10 and sum(weights(drawn(exact, 10))) == 180


WRONG: list[tuple[v1.InputType, Any, str]] = [
    (v1.integer_value(3), 3, r"slot 'x' has the id 3, which is not within 0 … 2 of integer_value\(3\)"),
    (v1.integer_value(3), -1, "slot 'x' has the id -1"),
    (v1.integer_value(3), 1.5, "slot 'x' is or holds float 1.5 where .* whole numbers"),
    (v1.integer_value(3), "1", "slot 'x' is or holds str '1'"),
    (v1.integer_value(3), None, "slot 'x' is missing"),
    (v1.integer_value_sequence(3), 1, r"slot 'x' is int 1 where integer_value_sequence\(3\) wants a list"),
    (v1.integer_value_sequence(3), [0, 7], "slot 'x' has the id 7"),
    (v1.integer_value_sub_sequence(3), [[0], [3]], "slot 'x' has the id 3"),
    (v1.dense_vector(3), [1.0, 2.0], r"slot 'x' has 2 numbers where dense_vector\(3\) wants 3"),
    (v1.dense_vector(2), [1.0, "2"], "slot 'x' holds str '2' where .* wants numbers"),
    (v1.dense_vector(2), 1.0, "slot 'x' is float 1.0 where .* wants a list"),
    (v1.sparse_binary_vector(5), [1, 5], "slot 'x' has the id 5, which is not within 0 … 4"),
    (v1.sparse_binary_vector(5), "abc", "slot 'x' is str 'abc' where .* wants a list"),
    (v1.sparse_vector(5), [(1, 0.5), 2], r"slot 'x' holds int 2 where .* wants pairs \(id, number\)"),
    (v1.sparse_vector(5), [(5, 0.5)], "slot 'x' has the id 5"),
]


@pytest.mark.parametrize(
    "options", [{}, {"should_shuffle": False}, {"pool_size": 9}], ids=["whole", "in order", "pool"]
)
@pytest.mark.parametrize(("kind", "bad", "message"), WRONG, ids=lambda case: str(case)[:30])
def test_a_wrong_value_is_told_by_slot_file_and_sample(
    kind: v1.InputType, bad: Any, message: str, options: dict[str, Any]
) -> None:
    good = {0: [0.0] * kind.dim, 1: [0], 2: [(0, 1.0)], 3: 0}[kind.type]
    for _ in range(kind.seq_type):
        good = [good]
    made = source(yielding(good, good, bad, good, input_types=[kind], **options), files=("data/part-1",))
    with pytest.raises(InputError, match=rf"sample 2 of data/part-1 \(demo::process\): {message}"):
        list(made.batches(2, ALL, 1))


TWO = [v1.integer_value(3), v1.integer_value(3)]


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (
            yielding([1], input_types=TWO),
            "sample 0 of a .* must be a list of 2 values, one for each of x, y, not one of 1",
        ),
        (yielding(4, input_types=TWO), "must be a list of 2 values.*, not int 4"),
        (yielding({"x": 1, "y": 1}, input_types=TWO), "is a dict: that needs input_types that are a dict too"),
        (yielding({"x": 1}, input_types=dict(zip("xy", TWO, strict=True))), "slot 'y' is missing"),
        (yielding(input_types=TWO), "demo::process yields no samples for the files of its list: a"),
        (yielding([1, 1], input_types=TWO, calc_batch_size=lambda s: "3"), "calc_batch_size must give a whole number"),
        (yielding([1, 1], input_types=TWO, calc_batch_size=lambda s: s[9]), "raised IndexError"),
        (yielding([1, 1], input_types=TWO[:1]), "declares 1 input_types and the config has 2 data layers: x, y"),
        (yielding([1, 1], input_types={"x": TWO[0]}), "input_types has no 'y', a data layer of the config; it has x"),
        (yielding([1, 1]), "has no input_types: give them to @provider or set settings.input_types in init_hook"),
        (yielding([1, 1], input_types=[3, 4]), "the input type of 'x' is 3; write one like"),
    ],
)
def test_a_provider_that_does_not_fit_the_config_is_told_so(definition: Definition, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(source(definition, ("x", "y")).batches(2, ALL, 1))


def broken(settings: Any, **kwargs: Any) -> None:
    raise KeyError("dictionary")


def test_errors_of_the_provider_itself_name_its_line() -> None:
    with pytest.raises(InputError, match=rf"broken raised KeyError: 'dictionary' at .*{Path(__file__).name}:\d+"):
        source(yielding(1, input_types=TWO[:1], init_hook=broken))

    @provider(input_types=TWO[:1])
    def process(settings: Any, file_name: str) -> Iterator[int]:
        yield 1
        raise ValueError("no such word")

    with pytest.raises(InputError, match=rf"process raised ValueError: no such word at .*{Path(__file__).name}:\d+"):
        list(source(process).batches(2, ALL, 1))


def test_check_refuses_an_id_that_comes_twice_and_no_check_counts_it() -> None:
    """The LR demo depends on it: a word that comes twice counts twice."""
    kinds = [v1.sparse_binary_vector(5)]
    (batch,) = source(yielding([1, 1], input_types=kinds)).batches(2, ALL, 1)
    assert nested(batch["x"]) == [[1, 1]]
    with pytest.raises(InputError, match=r"sample 0 of a .*: slot 'x' holds an id twice, which check=True refuses"):
        list(source(yielding([1, 1], input_types=kinds, check=True)).batches(2, ALL, 1))


def test_check_fail_continue_leaves_wrong_samples_out_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    options: dict[str, Any] = {"check": True, "check_fail_continue": True}
    with caplog.at_level(logging.WARNING, "umiak.paddle_v1"):
        made = source(yielding(0, 5, "1", 2, input_types=TWO[:1], **options))
        assert sorted(flat(drawn(made, 4))) == [0, 2]
    assert "sample 1 of a (demo::process): slot 'x' has the id 5" in caplog.text


def test_a_probe_finds_what_is_wrong_with_the_first_sample() -> None:
    with pytest.raises(InputError, match="sample 0 of a"):
        source(yielding(9, input_types=TWO[:1])).probe()
    source(yielding(1, 9, input_types=TWO[:1])).probe()


def test_the_decorated_function_can_still_be_called() -> None:
    process: Callable[..., Any] = yielding(1, 2, input_types=TWO[:1])
    assert list(process(None, "a")) == [1, 2]


def test_samples_cost_little_more_than_the_provider_itself() -> None:
    """50,000 samples of 80 words in a second on one core leave 20 µs for each; a quarter of that is ours to spend."""
    import time

    data = [np.random.default_rng(i).integers(0, 30_000, 80).tolist() for i in range(4096)]
    kinds = [v1.sparse_binary_vector(30_000), v1.integer_value(2)]
    made = source(yielding(*((words, 1) for words in data), input_types=kinds), ("word", "label"))
    costs = []
    for _ in range(5):
        began = time.process_time()
        list(made.batches(128, ALL, 1))
        costs.append((time.process_time() - began) / len(data))
    assert min(costs) < 15e-6
