"""Batches on their way into a model: read ahead, turned into tensors, with the ids of the rows they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from umiak.data.columns import count
from umiak.pserver.protocol import TableSpec
from umiak.pserver.rowinit import RowInit
from umiak.spec.config import Shard, Source
from umiak.trainer import forward
from umiak.trainer.prefetch import Prefetch
from umiak.trainer.session import Session
from umiak.trainer.tables import Prepared
from umiak.trainer.task import Task


class Feed:
    def __init__(self, task: Task, model: torch.nn.Module, session: Session) -> None:
        self.task, self.config, self.model, self.session = task, task.loaded.config, model, session

    def prefetch(self, source: Source, shard: Shard, seed: int | None, start: int) -> Prefetch[Prepared]:
        """The batches of a source from number `start` on, prepared while others are trained on."""
        return Prefetch(self._prepare(source, shard, seed, start))

    def run(self, batch: Mapping[str, Any]) -> tuple[Any, Any]:
        """The model's output for a batch, and its loss."""
        return forward.run(self.model, self.config, batch)

    def _prepare(self, source: Source, shard: Shard, seed: int | None, start: int) -> Iterator[Prepared]:
        for batch in source.batches(self.config.batch_size, shard, seed, start):
            tensors = forward.to_tensors(batch)
            if self.session.tables.fields is None:
                self._learn(tensors)
            wanted = self.session.tables.wanted(tensors)
            yield Prepared(
                *self.session.tables.move(tensors, wanted, self.session.device), count(next(iter(batch.values())))
            )

    def _learn(self, batch: Mapping[str, Any]) -> None:
        """See which fields of a batch hold the ids of which table."""
        was_training = self.model.training
        self.model.eval()
        try:
            self.session.tables.learn(batch, lambda: self.run(batch), self._initial_rows)
        finally:
            self.model.train(was_training)

    def _initial_rows(self, spec: TableSpec, ids: np.ndarray) -> np.ndarray:
        rows = np.empty((ids.size, spec.dim), np.float32)
        RowInit.of(self.task.settings.seed, spec.name, spec.init).fill(ids, rows)
        return rows
