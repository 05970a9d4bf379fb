"""Tests a model between two rounds, with the rows that the servers hold. Nothing is trained, and no row is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from umiak.pserver.protocol import Fetch
from umiak.spec.config import Shard, Source
from umiak.trainer.feeding import Feed
from umiak.trainer.tables import Prepared
from umiak.trainer.totals import Totals


def test(feed: Feed, alive: Callable[[], None]) -> tuple[Totals, dict[str, float]]:
    """Test on this trainer's share of the test data, or on all of them: its own totals, and the values of all trainers."""
    config, session = feed.config, feed.session
    own = Totals(config.metrics)
    assert config.test is not None
    with session.averaged():
        for prepared, output, loss in _evaluated(feed, config.test):
            own.add(float(loss), prepared.samples, output, prepared.batch)
            alive()
    return own, own.values(None if config.tests_whole else session.reduce(own.vector))


def _evaluated(feed: Feed, source: Source) -> Iterator[tuple[Prepared, Any, Any]]:
    """Each batch of a source with the model's output and loss."""
    session, model = feed.session, feed.model
    shard = Shard() if feed.config.tests_whole else Shard(feed.task.trainer, feed.task.trainers)
    prefetch = feed.prefetch(source, shard, None, 0)
    model.eval()
    try:
        with torch.no_grad():
            while (prepared := prefetch.next()) is not None:
                rows = session.fetch(prepared.wanted, Fetch.PEEK, prefetch.ahead)
                session.tables.bind(prepared.wanted, rows, grad=False, device=session.device)
                yield prepared, *feed.run(prepared.batch)
    finally:
        model.train()
        prefetch.close()
