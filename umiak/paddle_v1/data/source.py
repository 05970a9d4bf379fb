"""A data provider of v1 as a source of batches: runs its generators, pools, shuffles and cuts what they yield.

The same arguments give the same batches, provided the provider yields the same samples for a file each time. Where the
original's loading thread raced with training, a batch here always finds the pool as full as it may be.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from umiak.data.columns import Columns, check_size
from umiak.data.usercode import invoke, run
from umiak.errors import InputError
from umiak.paddle_v1.data.input_types import InputType
from umiak.paddle_v1.data.provider import CacheType, DataProvider, log
from umiak.paddle_v1.data.slots import Column, Wrong, complaint, out_of_range
from umiak.spec.config import Shard

CHUNK = 65_536
"""After how many samples their ids are looked at, so that a wrong one is told before all files are read."""

Sample = tuple[str, int, Sequence[Any], int]
"""The file, the number within it from 0, the slots in the config's order, and the weight of what a provider yielded."""


class Whole(NamedTuple):
    """All samples of a shard, and the weight of each where calc_batch_size gives one."""

    columns: Columns
    weights: np.ndarray | None


@dataclass
class ProviderSource:
    """`name` is module::function; `kinds` are the slots by data layer."""

    name: str
    provider: DataProvider
    kinds: dict[str, InputType]

    def __post_init__(self) -> None:
        self._shuffles = self.provider.shuffles
        self._cached = self.provider.cache == CacheType.CACHE_PASS_IN_MEM
        self._bounded = self.provider.pool_size >= 0
        self._kept: tuple[Shard, Whole | None] | None = None

    def batches(self, size: int, shard: Shard, seed: int | None, start: int = 0) -> Iterator[dict[str, Any]]:
        check_size(size)
        seed = seed if self._shuffles else None
        if self._cached or (seed is not None and not self._bounded):
            return self._from_memory(size, shard, seed, start)
        return self._from_pool(size, shard, seed, start)

    def probe(self) -> None:
        """Run the provider up to its first sample, so that what is wrong with it shows before anything is written.

        Also for listed files that are not there; a provider may yet know what to do with their names.
        """
        files = self.provider.file_list
        for file in [*files[:1], *(file for file in files[1:] if not Path(file).exists())]:
            self._gathered(islice(self._samples_of(file), 1))

    def _from_memory(self, size: int, shard: Shard, seed: int | None, start: int) -> Iterator[dict[str, Any]]:
        """Batches of all samples, which are read first."""
        if self._kept is None or self._kept[0] != shard:
            whole = self._read(shard)
            if not self._cached:
                return self._cut(whole, size, shard, seed, start)
            self._kept = shard, whole
        return self._cut(self._kept[1], size, shard, seed, start)

    def _cut(
        self, whole: Whole | None, size: int, shard: Shard, seed: int | None, start: int
    ) -> Iterator[dict[str, Any]]:
        if whole is None:
            return iter(())
        table, weights = whole
        order = np.arange(len(table))
        if seed is not None:
            order = np.random.default_rng([seed, shard.index]).permutation(len(table))
        if weights is None:
            return table.cut(order, size, start)
        cuts = _by_weight(weights[order].tolist(), size, self.provider.can_over_batch_size)
        return (table.take(order[a:b]) for a, b in cuts[start:])

    def _read(self, shard: Shard) -> Whole | None:
        if self._cached:
            # A restart in a later pass must cache what the first pass did, whatever the provider draws at random.
            random.seed(1)
            np.random.seed(1)
        parts: list[Columns] = []
        weights: list[int] = []
        samples = self._samples(shard, None)
        while some := self._gathered(islice(samples, CHUNK), weights):
            parts.append(some)
        if not parts:
            return None
        return Whole(Columns.concat(parts), np.array(weights) if self.provider.calc_batch_size else None)

    def _from_pool(self, size: int, shard: Shard, seed: int | None, start: int) -> Iterator[dict[str, Any]]:
        """Batches drawn from a pool that is filled as far as pool_size allows; in order, without a seed."""
        draw = None if seed is None else np.random.default_rng([seed, shard.index])
        most = max(self.provider.pool_size, size) if draw is not None else size
        least = self.provider.min_pool_size
        least = max(size, most if least < 0 else min(least, most))
        pool: deque[Sample] = deque()
        samples = self._samples(shard, seed)
        held, more, number = 0, True, 0
        while True:
            if more and held < least:
                for sample in samples:
                    pool.append(sample)
                    held += sample[3]
                    if held >= most:
                        break
                else:
                    more = False
            batch = self._draw(pool, size, draw)
            if not batch:
                return
            held -= sum(sample[3] for sample in batch)
            if number >= start:
                table = self._gathered(batch)
                assert table is not None
                yield {name: table[name] for name in table.names}
            number += 1

    def _draw(self, pool: deque[Sample], size: int, draw: np.random.Generator | None) -> list[Sample]:
        batch: list[Sample] = []
        weight = 0
        while weight < size and pool:
            if draw is not None:
                # The chosen one takes the front place, from where it can be taken at once.
                chosen = int(draw.integers(len(pool)))
                pool[0], pool[chosen] = pool[chosen], pool[0]
            if batch and not self.provider.can_over_batch_size and weight + pool[0][3] > size:
                break
            sample = pool.popleft()
            weight += sample[3]
            batch.append(sample)
        return batch

    def _samples(self, shard: Shard, seed: int | None) -> Iterator[Sample]:
        """The samples of a shard. With a seed the files take turns at random, the same turns for every trainer."""
        files = self.provider.file_list
        found: Iterator[Sample]
        if seed is None:
            found = chain.from_iterable(map(self._samples_of, files))
        else:
            found = _in_turns([self._samples_of(file) for file in files], np.random.default_rng(seed))
        number = -1
        for number, sample in enumerate(found):
            if number % shard.count == shard.index:
                yield sample
        if number < 0:
            raise InputError(f"{self.name} yields no samples for the files of its list: {', '.join(files[:3])} …")

    def _samples_of(self, file: str) -> Iterator[Sample]:
        provider, names = self.provider, tuple(self.kinds)
        single, by_name = len(names) == 1, provider.by_name
        weigh, checks = provider.calc_batch_size, provider.check
        weight = 1
        for number, yielded in enumerate(run(provider.generator, provider, file)):
            if isinstance(yielded, dict):
                if not by_name:
                    raise InputError(
                        f"{self._where(file, number)} is a dict: that needs input_types that are a dict too"
                    )
                slots: Sequence[Any] = [yielded.get(name) for name in names]
            elif single:
                slots = (yielded,)
            elif isinstance(yielded, list | tuple) and len(yielded) == len(names):
                slots = yielded
            else:
                raise InputError(
                    f"{self._where(file, number)} must be a list of {len(names)} values, one for each of "
                    f"{', '.join(names)}, not {_told(yielded)}"
                )
            if weigh is not None:
                weight = _whole(invoke(weigh, slots), f"{self._where(file, number)}: calc_batch_size")
            if checks and (wrong := self._complaint(file, number, slots)):
                if not provider.check_fail_continue:
                    raise InputError(wrong)
                log.warning("%s: it is left out", wrong)
                continue
            yield file, number, slots, weight

    def _gathered(self, samples: Iterable[Sample], weights: list[int] | None = None) -> Columns | None:
        """The table of some samples, None of none; their weights are added to `weights`."""
        made = [Column(kind) for kind in self.kinds.values()]
        takers = [column.add for column in made]
        places: list[tuple[str, int]] = []
        for file, number, slots, weight in samples:
            try:
                for take, value in zip(takers, slots, strict=True):
                    take(value)
            except (TypeError, ValueError, OverflowError) as error:
                wrong = self._complaint(file, number, slots) or f"{self._where(file, number)} cannot be used: {error}"
                raise InputError(wrong) from error
            places.append((file, number))
            if weights is not None:
                weights.append(weight)
        found: dict[str, Any] = {}
        for (name, kind), column in zip(self.kinds.items(), made, strict=True):
            try:
                found |= column.finish(name)
            except Wrong as error:
                where = self._where(*places[error.place])
                raise InputError(f"{where}: slot {name!r} {out_of_range(kind, error.id)}") from None
        return Columns(found) if places else None

    def _complaint(self, file: str, number: int, slots: Sequence[Any]) -> str | None:
        for (name, kind), value in zip(self.kinds.items(), slots, strict=True):
            if wrong := complaint(kind, value, strict=self.provider.check):
                return f"{self._where(file, number)}: slot {name!r} {wrong}"
        return None

    def _where(self, file: str, number: int) -> str:
        return f"sample {number} of {file} ({self.name})"


def _in_turns(generators: list[Iterator[Sample]], draw: np.random.Generator) -> Iterator[Sample]:
    end = object()
    while generators:
        chosen = int(draw.integers(len(generators))) if len(generators) > 1 else 0
        sample: Any = next(generators[chosen], end)
        if sample is end:
            del generators[chosen]
        else:
            yield sample


def _by_weight(weights: Sequence[int], size: int, can_over: bool) -> list[tuple[int, int]]:
    """Where to cut so that each part weighs `size`, or a little over; a sample that alone is too heavy stands alone."""
    cuts, begin, held = [], 0, 0
    for at, weight in enumerate(weights):
        if at > begin and (held >= size or (not can_over and held + weight > size)):
            cuts.append((begin, at))
            begin, held = at, 0
        held += weight
    return [*cuts, (begin, len(weights))] if weights else []


def _whole(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise InputError(f"{what} must give a whole number, not {value!r}")
    return int(value)


def _told(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"one of {len(value)}"
    return "None" if value is None else f"{type(value).__name__} {value!r:.40}"
