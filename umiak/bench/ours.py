"""Umiak itself, started as a user's job is; and its limit, the same trainers with services that cost nothing."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from umiak.bench import models
from umiak.bench.meter import Meter
from umiak.bench.run import Run, free_ports, in_processes
from umiak.errors import UmiakError
from umiak.messages.events import Event, Restart
from umiak.pserver.codec import Arrays, Restore
from umiak.pserver.protocol import Dense, Fetch, Flags, RoundResult, ServiceSpec
from umiak.spec.config import Config, Shard, Source
from umiak.spec.load import Loaded
from umiak.spec.optim import AdaGrad, Adam, Optimizer
from umiak.spec.settings import Settings
from umiak.trainer.services import LocalService

MODELS: dict[str, tuple[Any, Any, Optimizer]] = {
    "recommendation": (models.Recommendation, models.squared_error, Adam(lr=1e-3)),
    "ctr": (models.Clicks, models.click_loss, AdaGrad(lr=1e-2)),
    "data-ctr": (models.Clicks, models.click_loss, AdaGrad(lr=1e-2)),
    "quick_start": (models.BagOfWords, models.class_loss, Adam(lr=1e-3)),
}


Make = Callable[[Source], Config]
"""What is trained, on the source that it is given."""


def of_workload(run: Run) -> Make:
    model, loss, optimizer = MODELS[run.workload]
    return partial(Config, model, loss=loss, optimizer=optimizer, batch_size=run.trained.batch_size)


class Endless:
    """A source whose batches go round for ever, and a loss that ticks the meter of the trainer it runs in."""

    def __init__(self, run: Run, make: Make) -> None:
        self.run = run
        self.traffic = Traffic()
        self._config = make(self)
        self._meter: Meter | None = None

    def batches(self, size: int, shard: Shard, seed: int | None, start: int = 0) -> Iterator[dict[str, Any]]:
        self._meter = self.run.meter(shard.index, self.traffic.per_round)
        return itertools.cycle(self.run.batches(shard.index))

    def loss(self, output: Any, batch: Any) -> Any:
        loss = self._config.loss(output, batch)
        if loss.requires_grad and self._meter is not None:
            self._meter.tick()
        return loss

    def config(self) -> Config:
        return replace(self._config, loss=self.loss)


class _Enough(BaseException):
    """Ends the job from inside, past all handlers of errors."""


def umiak(run: Run) -> None:
    """A job of the launcher, with the transport of its own default."""
    job(run, Settings(workers=run.workers, save_dir=run.directory / "out"), of_workload(run))


def umiak_async(run: Run) -> None:
    job(run, Settings(workers=run.workers, save_dir=run.directory / "out", mode="async"), of_workload(run))


def umiak_tls(run: Run) -> None:
    """Over TCP with mutual TLS, as between machines; a trainer and the server of its own worker share one."""
    from umiak.wire import credentials

    certificates = run.directory / "tls"
    credentials.write(certificates, run.workers)
    out, port = run.directory / "out", free_ports(run.workers)
    settings = Settings(workers=run.workers, save_dir=out, tls=certificates, transport="tcp", port=port)
    job(run, settings, of_workload(run))


def job(run: Run, settings: Settings, make: Make, source: Callable[[Run, Make], Endless] = Endless) -> None:
    from umiak.launch import local

    def look(event: Event) -> None:
        if run.enough:
            raise _Enough
        if isinstance(event, Restart):
            raise UmiakError(f"the job restarted during the measurement: {event}")

    with contextlib.suppress(_Enough):
        local.train(settings, look, Loaded(source(run, make).config()))


class Traffic:
    """What a trainer would have sent and received."""

    def __init__(self) -> None:
        self.rounds = self.messages = self.sent = self.received = 0

    def per_round(self) -> dict[str, Any]:
        if not self.rounds:
            return {}
        counted = {"messages": self.messages, "sent": self.sent, "received": self.received}
        return {f"{name}_per_round": count / self.rounds for name, count in counted.items()}


class FreeService(LocalService):
    """A service that takes no time: rows are constant, dense values stay as they are."""

    def __init__(self, traffic: Traffic, counts_rounds: bool) -> None:
        super().__init__()
        self._traffic, self._counts_rounds = traffic, counts_rounds
        self._outcome = RoundResult(0, 0, Flags.NONE, 0.0)
        self._dense = 0

    def setup(self, spec: ServiceSpec, values: np.ndarray, restore: Restore | None) -> None:
        pass

    def send_fetch(self, ids: Arrays, how: Fetch, dense: Dense) -> None:
        self._dense = int(dense)

    def send_round(
        self, round_id: int, samples: int, flags: Flags, cost: float, ids: Arrays, dense: np.ndarray, rows: Arrays
    ) -> None:
        self._outcome, self._dense = RoundResult(round_id, samples, Flags.NONE, cost), 1
        self._traffic.rounds += self._counts_rounds
        self._traffic.messages += 1
        self._traffic.sent += sum(part.nbytes for part in (*ids, dense, *rows))

    def receive(self, parts: Arrays) -> RoundResult:
        for part in parts[self._dense :]:
            part.fill(0.01)  # memory that was never written may hold anything, and torch is slow with some of it
        self._traffic.received += sum(part.nbytes for part in parts)
        return self._outcome


def limit(run: Run) -> None:
    """The trainers of a job with one service that costs nothing per worker, so that all but communication is there."""
    import torch

    from umiak.pserver.placement import merge
    from umiak.trainer.run import run as train
    from umiak.trainer.session import Placed
    from umiak.trainer.task import Assignment

    torch.set_num_threads(1)
    merge(np.arange(4), run.workers)  # compiled once, before forking
    source = Endless(run, of_workload(run))
    loaded = Loaded(source.config())

    @contextlib.contextmanager
    def unconnected(settings: Settings, assignment: Assignment) -> Iterator[tuple[list[Placed], Assignment]]:
        services = [Placed(FreeService(source.traffic, number == 0), True, True) for number in range(run.workers)]
        yield services, assignment

    def work(trainer: int) -> None:
        assignment = Assignment(trainer=trainer, trainers=run.workers)
        with Path(os.devnull).open("w") as dots:
            train(loaded, Settings(), assignment, lambda event: None, lambda: False, dots, connect=unconnected)

    in_processes(run, run.workers, work)
