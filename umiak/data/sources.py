"""Sources made of a user's own generator function, kept in memory or streamed.

A source gives batches of one shard; sample i belongs to shard i % count. The same arguments always give the same
batches, provided the function itself yields the same samples each time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from umiak.data.columns import Columns, check_size, count, gather, stack
from umiak.data.samples import Schema
from umiak.data.shared import Numbered, Store
from umiak.data.usercode import named, parameters, run
from umiak.errors import InputError
from umiak.spec.config import Shard

Samples = Iterator[tuple[int, str, Mapping[str, Any]]]
"""A sample's number, which decides whose it is, where it comes from, and the sample."""
log = logging.getLogger("umiak.data")


class Kept:
    """Loads its shard once and keeps it, so that every pass after the first costs no parsing.

    The trainers of one machine hold all samples together, if it is told where (umiak.data.shared).
    """

    def __init__(self, load: Callable[[Shard], Numbered], can_share: bool = True) -> None:
        """`load` gives the samples of a shard. With `can_share`, sample number i of all is in shard i % count."""
        self._load, self._can_share = load, can_share
        self._store: Store | None = None
        self._whole: Numbered | None = None
        self._kept: tuple[Shard, Columns | None, np.ndarray] | None = None

    def share(self, store: Store | None) -> None:
        """Keep all samples there, once for all trainers that are forked from this process; None: no longer."""
        self._store = store if self._can_share else None

    def batches(self, size: int, shard: Shard, seed: int | None, start: int = 0) -> Iterator[dict[str, Any]]:
        if self._kept is None or self._kept[0] != shard:
            self._kept = (shard, *self._loaded(shard))
        _, columns, mine = self._kept
        if columns is None:
            return iter(())
        order = mine if seed is None else mine[_random(seed, shard).permutation(len(mine))]
        return columns.cut(order, size, start)

    def _loaded(self, shard: Shard) -> tuple[Columns | None, np.ndarray]:
        """A table, and which of its samples are the shard's."""
        if self._store is not None and self._whole is None:
            self._whole = self._store.get(partial(self._load, Shard()))
        if self._whole is not None:
            return self._whole.columns, np.flatnonzero(self._whole.numbers % shard.count == shard.index)
        loaded = self._load(shard)
        return loaded.columns, np.arange(len(loaded.numbers))


class Pooled:
    """Streams its shard on every pass and shuffles within a pool of samples: for data that do not fit in memory."""

    def __init__(self, samples: Callable[[Shard], Samples], pool: int) -> None:
        if pool < 1:
            raise InputError(
                f"pool must be at least 1 sample, not {pool}; leave it out to keep the whole shard in memory"
            )
        self._samples = samples
        self._pool = pool

    def batches(self, size: int, shard: Shard, seed: int | None, start: int = 0) -> Iterator[dict[str, Any]]:
        check_size(size)
        random = None if seed is None else _random(seed, shard)
        schema = Schema()
        pools = self._pools(shard, size, schema, random)
        begun = time.monotonic()
        for number, samples in enumerate(pools):
            if number >= start:
                _told_replay(number, start, begun)
                batch = stack(samples, schema)
                yield batch.take(np.arange(len(batch)))

    def _pools(
        self, shard: Shard, size: int, schema: Schema, random: np.random.Generator | None
    ) -> Iterator[list[Mapping[str, Any]]]:
        pool = max(self._pool, size)
        waiting: list[Mapping[str, Any]] = []
        for _, where, sample in self._samples(shard):
            schema.check(sample, where)
            waiting.append(sample)
            if len(waiting) == pool:
                waiting = _shuffled(waiting, random)
                whole = pool // size * size
                yield from (waiting[begin : begin + size] for begin in range(0, whole, size))
                waiting = waiting[whole:]
        waiting = _shuffled(waiting, random)
        yield from (waiting[begin : begin + size] for begin in range(0, len(waiting), size))


class Batches:
    """Ready-made batches, passed on after a look at their lengths."""

    def __init__(self, fn: Callable[..., Iterable[Mapping[str, Any]]]) -> None:
        self._fn = fn
        self._takes = parameters(fn, ("shard", "seed"))

    def batches(self, size: int, shard: Shard, seed: int | None, start: int = 0) -> Iterator[dict[str, Any]]:
        step = shard if self._takes == 0 else Shard()
        begun = time.monotonic()
        for number, batch in enumerate(run(self._fn, *(shard, seed)[: self._takes])):
            if number % step.count == step.index and number // step.count >= start:
                _told_replay(number // step.count, start, begun)
                yield _checked(batch, f"batch {number} of {named(self._fn)}")


def provider(fn: Callable[..., Iterable[Mapping[str, Any]]], pool: int | None = None) -> Kept | Pooled:
    """A source of the samples that `fn` yields, each a dict such as `{"words": [3, 7], "label": 1}`.

    `fn()` yields all samples, and each trainer keeps its own. `fn(shard)` yields only those of `shard`, for data that are
    costly to read. The samples of a shard stay in memory after the first pass; with `pool`, they are read again in every
    pass and shuffled `pool` samples at a time.
    """
    samples = partial(_provided, fn, parameters(fn, ("shard",)))
    return stream(samples, pool, can_share=parameters(fn, ("shard",)) == 0)


def batch_provider(fn: Callable[..., Iterable[Mapping[str, Any]]]) -> Batches:
    """A source of ready-made batches: dicts of arrays, or of Ragged, with one entry per sample. `fn` decides their size.

    `fn()` yields all batches, and batch i belongs to shard i % count. `fn(shard)` or `fn(shard, seed)` yields only those of
    `shard`. `fn` also does the shuffling: `seed` changes with every pass, and is None when the order must be kept.
    """
    return Batches(fn)


def stream(samples: Callable[[Shard], Samples], pool: int | None, can_share: bool = True) -> Kept | Pooled:
    """A source of the samples of a shard, kept whole in memory or read through a pool."""
    return Kept(partial(_keep, samples), can_share) if pool is None else Pooled(samples, pool)


def _keep(samples: Callable[[Shard], Samples], shard: Shard) -> Numbered:
    numbers: list[int] = []

    def noted() -> Iterator[tuple[str, Mapping[str, Any]]]:
        for number, where, sample in samples(shard):
            numbers.append(number)
            yield where, sample

    taken = noted()
    first = next(taken, None)
    columns = None if first is None else gather(chain([first], taken))
    return Numbered(columns, np.array(numbers, np.int64))


def _told_replay(number: int, start: int, begun: float) -> None:
    """Say how long it took to get to where a pass is taken up: a generator can only be run from its beginning."""
    if number == start > 0:
        log.info(
            "replayed %d batches of a generator in %.1f s, to continue after them", start, time.monotonic() - begun
        )


def _provided(fn: Callable[..., Iterable[Mapping[str, Any]]], takes: int, shard: Shard) -> Samples:
    step = shard if takes == 0 else Shard()
    name = named(fn)
    number = -1
    for number, sample in enumerate(run(fn, *(shard,)[:takes])):
        if number % step.count == step.index:
            yield number, f"sample {number} of {name}", sample
    if number < 0 and takes == 0:
        raise InputError(f"{name} yields no samples")


def _checked(batch: Any, where: str) -> dict[str, Any]:
    if not isinstance(batch, Mapping) or not batch:
        raise InputError(f"{where} must be a dict of arrays, not {type(batch).__name__}")
    try:
        lengths = {name: count(column) for name, column in batch.items()}
    except TypeError:
        raise InputError(f"{where}: every field must be an array or a Ragged with one entry per sample") from None
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InputError(f"{where}: the fields differ in their number of samples: {told}")
    if not next(iter(lengths.values())):
        raise InputError(f"{where} is empty; leave empty batches out")
    return dict(batch)


def _shuffled(samples: list[Mapping[str, Any]], random: np.random.Generator | None) -> list[Mapping[str, Any]]:
    return samples if random is None else [samples[i] for i in random.permutation(len(samples))]


def _random(seed: int, shard: Shard) -> np.random.Generator:
    return np.random.default_rng([seed, shard.index])
