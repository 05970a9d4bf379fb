"""A trainer's part in a job: batches come out, `step` sends their gradients; passes, tests and checkpoints happen between.

with umiak.join(config, …) as job:
    for batch in job.batches():
        loss = …
        loss.backward()
        job.step(loss)
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from umiak.data.columns import count
from umiak.errors import InputError, UmiakError
from umiak.messages.events import Pass
from umiak.pserver.protocol import Fetch, Flags, RoundResult, TableSpec
from umiak.pserver.rowinit import RowInit
from umiak.spec.config import Shard, Source
from umiak.spec.load import Loaded
from umiak.spec.settings import Settings
from umiak.trainer import forward, state
from umiak.trainer.averaging import AverageTests
from umiak.trainer.prefetch import Prefetch
from umiak.trainer.records import Recorder
from umiak.trainer.saving import Saver
from umiak.trainer.session import Session
from umiak.trainer.state import Position
from umiak.trainer.tables import Prepared
from umiak.trainer.totals import Totals

log = logging.getLogger("umiak.trainer")


class Stopped(UmiakError):
    """Training stopped because it was asked to, with a checkpoint."""

    exit_code = 75


class Job:
    def __init__(
        self,
        loaded: Loaded,
        model: torch.nn.Module,
        session: Session,
        settings: Settings,
        trainer: int,
        trainers: int,
        recorder: Recorder,
        saver: Saver,
        stop_requested: Callable[[], bool] = lambda: False,
    ) -> None:
        self.config, self.model, self.session = loaded.config, model, session
        self.settings, self.trainer, self.trainers = settings, trainer, trainers
        self.recorder, self.saver = recorder, saver
        self.position = Position(pass_id=settings.start_pass)
        self.totals = Totals(self.config.metrics)
        self._stop_requested = stop_requested
        self._prefetch: Prefetch[Prepared] | None = None
        self._current: Prepared | None = None
        self._outcome: RoundResult | None = None
        self._checkpointed = time.monotonic()
        self._asynchronous = settings.mode == "async" and trainers > 1
        averages = settings.average_test_period > 0 and trainer == 0 and self.config.average is not None
        self._average_tests = AverageTests(self.config, settings) if averages else None
        if self._asynchronous and (settings.test_period or settings.saving_period_by_batches):
            raise InputError("--test_period and --saving_period_by_batches count rounds: they need --mode sync")

    @property
    def passes(self) -> int:
        return self.settings.start_pass + self.settings.num_passes

    def restore(self, blob: bytes) -> None:
        """Go on where a checkpoint's trainer stood."""
        self.position, vector = state.unpack(blob, self.model)
        self.totals.vector[:] = vector

    def batches(self) -> Iterator[Mapping[str, Any]]:
        """The batches of all passes that are left, in order; `step` must be called once for each."""
        while self.position.pass_id < self.passes:
            yield from self._pass()
            self._end_pass()
        self.saver.finish()

    def step(self, loss: Any, output: Any = None) -> float:
        """One round with the gradients that backward() left; the mean cost of the round over all trainers."""
        if self._current is None or self._prefetch is None:
            raise InputError(
                "job.step() was called twice for one batch, before the first, or after job.batches() ended"
            )
        cost = float(loss.detach() if isinstance(loss, torch.Tensor) else loss)
        if not math.isfinite(cost):
            raise self._not_finite(cost)
        self.totals.add(cost, self._current.samples, output, self._current.batch)
        self._show_parameters()
        samples, following = self._current.samples, self._prefetch.next()
        self.position.batch += 1
        self._round(samples, cost * samples, following)
        self._current = None
        self._following = following
        assert self._outcome is not None
        return self._outcome.cost / max(self._outcome.samples, 1)

    def _pass(self) -> Iterator[Mapping[str, Any]]:
        seed = mix(self.settings.seed, self.position.pass_id)
        random.seed(seed)
        np.random.seed(seed % (1 << 32))
        if not self.position.batch:
            self.totals = Totals(self.config.metrics)
        self.recorder.begin_pass(self.totals)
        shard = Shard() if self.settings.own_data else Shard(self.trainer, self.trainers)
        self._prefetch = Prefetch(self._prepare(self.config.train, shard, seed, self.position.batch))
        try:
            self._following = self._prefetch.next()
            if self._following is not None:
                self.session.begin(self._following, self.position.rounds > 0, self._prefetch.ahead)
            while self._following is not None:
                self._current, self._outcome = self._following, None
                number = self.position.batch
                if self._average_tests:
                    self._average_tests.before(number, self.model, self.session, self._current)
                yield self._current.batch
                if self._average_tests:
                    self._average_tests.after(number)
                if self._outcome is None:
                    raise InputError("job.step() was not called for a batch: call it once for each, after backward()")
                self._after_round()
            while self._outcome is None or Flags.OUT_OF_DATA not in self._outcome.flags:
                self._round(0, 0.0, None)
                self._after_round()
        finally:
            self._outcome = self._current = None
            self._prefetch.close()

    def _round(self, samples: int, cost: float, following: Prepared | None) -> None:
        flags = Flags.NONE if following else Flags.OUT_OF_DATA
        self.position.rounds += 1
        if self.trainer == 0 and self._checkpoint_is_due():
            flags |= Flags.CHECKPOINT
        if self._stop_requested():
            flags |= Flags.STOP
        assert self._prefetch is not None
        self._outcome = self.session.exchange(samples, flags, cost, following, self._prefetch.ahead)
        self.position.samples += self._outcome.samples
        self.recorder.round(
            self._outcome.round,
            self.position.pass_id,
            self.position.batch,
            samples > 0,
            self.totals,
            self._outcome.cost / max(self._outcome.samples, 1),
            self._outcome.samples,
        )

    def _checkpoint_is_due(self) -> bool:
        minutes = self.settings.checkpoint_minutes
        if self.saver.busy:
            # The time between two counts from the end of the first, or a slow disk would have rounds wait for it.
            self._checkpointed = time.monotonic()
        return self._save_is_due() or (minutes > 0 and time.monotonic() - self._checkpointed > 60 * minutes)

    def _save_is_due(self) -> bool:
        period = self.settings.saving_period_by_batches
        return period > 0 and self.position.rounds % period == 0

    def _after_round(self) -> None:
        assert self._outcome is not None
        flags = self._outcome.flags
        if not (flags or self.saver.busy or self.settings.test_period or self.settings.saving_period_by_batches):
            return
        cut = flags & (Flags.CHECKPOINT | Flags.STOP)
        self.saver.poll()
        if Flags.OUT_OF_DATA in flags and not (cut and self._asynchronous):
            return
        period = self.settings.test_period
        saving = self._save_is_due()
        testing = self.config.test is not None and (saving or (period > 0 and self.position.rounds % period == 0))
        if testing or saving:
            state.agree_on_buffers(self.model, self.trainers, self.session.reduce)
        if testing:
            tested, _ = self.test()
            self.recorder.test(tested.samples, tested.values() or {"cost": 0.0})
        if saving:
            inner = self.position.rounds // self.settings.saving_period_by_batches
            self.saver.snapshot(self.position.pass_id, inner)
        if cut:
            self._checkpoint()
        if Flags.STOP in flags:
            self._stop()
        if testing and self._following is not None:
            # The test has used the room for rows; only now, because this releases rows for the other trainers too.
            self.session.begin(self._following, again=True)

    def _end_pass(self) -> None:
        sums = self.session.reduce(np.append(self.totals.vector, [self.session.sent, self.session.dropped]))
        self.session.sent = self.session.dropped = 0
        merged = self.totals.values(sums[:-2])
        state.agree_on_buffers(self.model, self.trainers, self.session.reduce)
        tested, all_tested = self.test() if self.config.test else (None, None)
        event = Pass(
            pass_id=self.position.pass_id,
            round=self.session.round,
            samples=self.position.samples,
            train=merged,
            test=all_tested,
            tables=self.session.statistics() if self.trainer == 0 and self.session.tables.specs else None,
            dropped=float(sums[-1] / max(sums[-2], 1)) if self._asynchronous else None,
        )
        own = (tested.samples, tested.values()) if tested else None
        self.recorder.end_pass(event, self.position.batch, self.totals, own)
        if self.position.pass_id % self.settings.saving_period == 0 or self.position.pass_id == self.passes - 1:
            self.saver.snapshot(self.position.pass_id, None)
        self.position = Position(self.position.pass_id + 1, samples=self.position.samples)
        stopping = self.session.reduce(np.array([float(self._stop_requested())]))[0] > 0
        self._checkpoint()
        if stopping and self.position.pass_id < self.passes:
            self._stop()

    def _checkpoint(self) -> None:
        """A consistent cut. Rounds give one for free; without them the trainers meet before it and after it is written."""
        self._checkpointed = time.monotonic()
        if self._asynchronous:
            self.session.reduce(np.zeros(1))
        self.saver.checkpoint(self.position, state.pack(self.position, self.totals.vector, self.model))
        if self._asynchronous:
            self.saver.finish()
            self.session.reduce(np.zeros(1))

    def _stop(self) -> None:
        self.saver.finish()
        saved = ", with a checkpoint" if self.saver.checkpoints else ""
        raise Stopped(f"stopped in pass {self.position.pass_id}, round {self.session.round}{saved}")

    def test(self) -> tuple[Totals, dict[str, float]]:
        """Test on this trainer's share of the test data, or on all of them: its own totals, and the values of all trainers."""
        own = Totals(self.config.metrics)
        assert self.config.test is not None
        with self.session.averaged():
            for prepared, output, loss in self.evaluate(self.config.test):
                own.add(float(loss), prepared.samples, output, prepared.batch)
        return own, own.values(None if self.config.tests_whole else self.session.reduce(own.vector))

    def evaluate(self, source: Source) -> Iterator[tuple[Prepared, Any, Any]]:
        """Run the model over a source without training: batch, output and loss of each."""
        shard = Shard() if self.config.tests_whole else Shard(self.trainer, self.trainers)
        prefetch = Prefetch(self._prepare(source, shard, None, 0))
        self.model.eval()
        try:
            with torch.no_grad():
                while (prepared := prefetch.next()) is not None:
                    rows = self.session.fetch(prepared.wanted, Fetch.PEEK, prefetch.ahead)
                    self.session.tables.bind(prepared.wanted, rows, grad=False, device=self.session.device)
                    output, loss = self.run(prepared.batch)
                    self.recorder.alive()
                    yield prepared, output, loss
        finally:
            self.model.train()
            prefetch.close()

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
        was_training = self.model.training
        self.model.eval()
        try:
            self.session.tables.learn(batch, lambda: self.run(batch), self._initial_rows)
        finally:
            self.model.train(was_training)

    def _initial_rows(self, spec: TableSpec, ids: np.ndarray) -> np.ndarray:
        rows = np.empty((ids.size, spec.dim), np.float32)
        RowInit.of(self.settings.seed, spec.name, spec.init).fill(ids, rows)
        return rows

    def _not_finite(self, cost: float) -> InputError:
        suspects = [name for name, p in self.session.parameters.items() if not bool(torch.isfinite(p).all())]
        suspects += [
            name
            for name, p in self.session.parameters.items()
            if p.grad is not None and not bool(torch.isfinite(p.grad).all())
        ]
        suspects += self.session.tables.not_finite()
        first = (
            f"; the first parameter that is not finite, or whose gradient is not, is {suspects[0]!r}"
            if suspects
            else ""
        )
        return InputError(
            f"the loss is {cost} in pass {self.position.pass_id}, batch {self.position.batch} of trainer {self.trainer}{first}: "
            "lower the learning rate, set clip, or look at the data of that batch"
        )

    def _show_parameters(self) -> None:
        period = self.settings.show_parameter_stats_period
        if self.trainer == 0 and period and (self.position.batch + 1) % period == 0:
            self.recorder.parameters(self.session.parameters)


def mix(seed: int, number: int) -> int:
    """A seed of its own for each pass or trainer."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0]) >> 1
