"""`paddle train --job=time`: how long training takes per batch, after ten batches that do not count."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from umiak import logs
from umiak.data.columns import count
from umiak.errors import InputError
from umiak.spec.config import Shard, Source
from umiak.spec.load import Loaded
from umiak.spec.settings import Settings
from umiak.trainer.run import opened
from umiak.trainer.task import Assignment

BURNED = 10
log = logging.getLogger("umiak.trainer")


@dataclass
class _Repeated:
    """The first batch again and again; after those that do not count, the following ones with `feeds`."""

    source: Source
    batches_timed: int
    feeds: bool
    took: list[float] = field(default_factory=list)
    """The seconds it took to get each batch."""

    def batches(self, size: int, shard: Shard, seed: int | None, start: int = 0) -> Iterator[dict[str, Any]]:
        found = self.source.batches(size, shard, seed, 0)
        batch: dict[str, Any] | None = next(found, None)
        samples = _samples(batch)
        if batch is None or samples != size:
            raise InputError(f"--job=time needs a whole batch of {size} samples, and the data give {samples}")
        for _ in range(BURNED):
            yield batch
        for _ in range(self.batches_timed):
            if self.feeds:
                began = time.perf_counter()
                batch = next(found, None)
                self.took.append(time.perf_counter() - began)
                if batch is None or _samples(batch) != size:
                    return
            yield batch


def _samples(batch: dict[str, Any] | None) -> int:
    return count(next(iter(batch.values()))) if batch else 0


def run(loaded: Loaded, settings: Settings, assignment: Assignment) -> None:
    """Train --test_period batches, nothing of which is kept, and log what they took in milliseconds."""
    if not settings.test_period:
        raise InputError("--job=time needs --test_period=N: how many batches are to be timed")
    source = _Repeated(loaded.config.train, settings.test_period, settings.feed_data)
    loaded = replace(loaded, config=replace(loaded.config, train=source, test=None))
    settings = replace(settings, start_pass=0, num_passes=1, test_period=0, saving_period_by_batches=0)
    took: list[float] = []
    with opened(loaded, settings, replace(assignment, out=None), lambda event: None, lambda: False, sys.stderr) as job:
        for number, batch in enumerate(job.batches()):
            if number == 0:
                log.info("Burning time...")
            elif number == BURNED:
                log.info("Burning time end.")
            began = time.perf_counter()
            output, loss = job.run(batch)
            loss.backward()
            job.step(loss.detach(), output)
            if number >= BURNED:
                took.append(time.perf_counter() - began)
    log.info("======= StatSet: [GlobalStatInfo] status ======")
    for name, seconds in (("FwdBwd", took), ("GetData", source.took)):
        if seconds:
            log.info(stat_line(name, [1000 * each for each in seconds]))


def stat_line(name: str, milliseconds: list[float]) -> str:
    """A timer in the columns of v1."""
    figures = {
        "total": sum(milliseconds),
        "avg": sum(milliseconds) / len(milliseconds),
        "max": max(milliseconds),
        "min": min(milliseconds),
        "count": len(milliseconds),
    }
    return f"Stat={name:<30}" + "".join(f" {key}={logs.number(value):<10}" for key, value in figures.items())
