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

from umiak import logs
from umiak.data.streaming.source import Stream
from umiak.errors import InputError, UmiakError
from umiak.messages.events import Notice, Pass
from umiak.pserver.protocol import Flags, RoundResult
from umiak.spec.config import Shard
from umiak.trainer import state
from umiak.trainer.averaging import AverageTests
from umiak.trainer.feeding import Feed
from umiak.trainer.prefetch import Prefetch
from umiak.trainer.records import Recorder
from umiak.trainer.saving import Saver
from umiak.trainer.session import Session
from umiak.trainer.state import Position
from umiak.trainer.stopping import rule_of
from umiak.trainer.tables import Prepared
from umiak.trainer.task import Task
from umiak.trainer.testing import test
from umiak.trainer.totals import Totals

log = logging.getLogger("umiak.trainer")


class Stopped(UmiakError):
    """Training stopped because it was asked to, with a checkpoint."""

    exit_code = 75


class _Pass:
    """A pass under way: the batch that is out, the one that follows it, and what the last round came to."""

    def __init__(self, prefetch: Prefetch[Prepared]) -> None:
        self.prefetch = prefetch
        self.current: Prepared | None = None
        """Given out, and not yet sent by `step`."""
        self.following = prefetch.next()
        self.outcome: RoundResult | None = None
        """Of the round of the batch that was given out last; None until it is over."""

    def give_out(self) -> Prepared:
        assert self.following is not None
        self.current, self.outcome = self.following, None
        return self.current

    @property
    def has_ended(self) -> bool:
        """Whether nobody has data for another round."""
        return self.outcome is not None and Flags.OUT_OF_DATA in self.outcome.flags


class Trainer:
    """One of the trainers of a job. All of them make the same calls in the same order."""

    def __init__(
        self,
        task: Task,
        model: torch.nn.Module,
        session: Session,
        recorder: Recorder,
        saver: Saver,
        stop_requested: Callable[[], bool] = lambda: False,
    ) -> None:
        settings = task.settings
        self.task, self.settings, self.trainer, self.trainers = task, settings, task.trainer, task.trainers
        self.config, self.model, self.session = task.loaded.config, model, session
        self.recorder, self.saver = recorder, saver
        self.feed = Feed(task, model, session)
        self.position = Position(pass_id=settings.start_pass)
        self.totals = Totals(self.config.metrics)
        self.rule = rule_of(self.config, settings)
        self._stop_requested = stop_requested
        self._pass: _Pass | None = None
        self._checkpointed = time.monotonic()
        averages = settings.average_test_period > 0 and self.trainer == 0 and self.config.average is not None
        self._average_tests = AverageTests(self.config, settings) if averages else None
        if self.task.is_asynchronous and (settings.test_period or settings.saving_period_by_batches):
            raise InputError("--test_period and --saving_period_by_batches count rounds: they need --mode sync")

    @property
    def passes(self) -> int:
        return self.settings.start_pass + self.settings.num_passes

    def restore(self, blob: bytes) -> None:
        """Resume where a checkpoint's trainer stood."""
        self.position, vector = state.unpack(blob, self.model)
        self.totals.vector[:] = vector

    def batches(self) -> Iterator[Mapping[str, Any]]:
        """The batches of all passes that are left, in order; `step` must be called once for each."""
        while not self._is_over(self.position.pass_id):
            yield from self._batches_of_pass()
            self._end_pass()
        self.saver.finish()

    def _is_over(self, next_pass: int) -> bool:
        return next_pass >= self.passes or (self.rule is not None and self.rule.is_over(self.position.best, next_pass))

    def step(self, loss: Any, output: Any = None) -> float:
        """One round with the gradients that backward() left; the mean cost of the round over all trainers."""
        under_way = self._pass
        if under_way is None or under_way.current is None:
            raise InputError(
                "job.step() was called twice for one batch, before the first, or after job.batches() ended"
            )
        cost = float(loss.detach() if isinstance(loss, torch.Tensor) else loss)
        if not math.isfinite(cost):
            raise self._not_finite(cost)
        samples = under_way.current.samples
        self.totals.add(cost, samples, output, under_way.current.batch)
        self._show_parameters()
        begun = time.perf_counter()
        under_way.following = under_way.prefetch.next()
        self.session.timings.waited_for_data(begun)
        self.position.batch += 1
        outcome = self._round(under_way, samples, cost * samples)
        under_way.current = None
        return outcome.cost / max(outcome.samples, 1)

    def _batches_of_pass(self) -> Iterator[Mapping[str, Any]]:
        seed = mix(self.settings.seed, self.position.pass_id)
        random.seed(seed)
        np.random.seed(seed % (1 << 32))
        if not self.position.batch:
            self.totals = Totals(self.config.metrics)
        self.recorder.begin_pass(self.totals)
        shard = Shard() if self.settings.own_data else Shard(self.trainer, self.trainers)
        prefetch = self.feed.prefetch(self.config.train, shard, seed, self.position.batch)
        try:
            under_way = self._pass = _Pass(prefetch)
            if under_way.following is not None:
                self.session.begin(under_way.following, self.position.rounds > 0, prefetch.ahead)
            self.session.timings.restart()
            while under_way.following is not None:
                current, number = under_way.give_out(), self.position.batch
                if self._average_tests:
                    self._average_tests.before(number, self.model, self.session, current)
                yield current.batch
                if self._average_tests:
                    self._average_tests.after(number)
                if under_way.outcome is None:
                    raise InputError("job.step() was not called for a batch: call it once for each, after backward()")
                self._after_round(under_way.outcome, under_way.following)
            while not under_way.has_ended:
                self._after_round(self._round(under_way, 0, 0.0), None)
        finally:
            self._pass = None
            prefetch.close()

    def _round(self, under_way: _Pass, samples: int, cost: float) -> RoundResult:
        flags = Flags.NONE if under_way.following else Flags.OUT_OF_DATA
        self.position.rounds += 1
        if self.trainer == 0 and self._checkpoint_is_due():
            flags |= Flags.CHECKPOINT
        if self._stop_requested():
            flags |= Flags.STOP
        outcome = self.session.exchange(samples, flags, cost, under_way.following, under_way.prefetch.ahead)
        under_way.outcome = outcome
        self.position.samples += outcome.samples
        self.recorder.round(
            outcome.round,
            self.position.pass_id,
            self.position.batch,
            samples > 0,
            self.totals,
            outcome.cost / max(outcome.samples, 1),
            outcome.samples,
        )
        return outcome

    def _checkpoint_is_due(self) -> bool:
        minutes = self.settings.checkpoint_minutes
        if self.saver.busy:
            # The time between two counts from the end of the first, or a slow disk would have rounds wait for it.
            self._checkpointed = time.monotonic()
        return self._save_is_due() or (minutes > 0 and time.monotonic() - self._checkpointed > 60 * minutes)

    def _save_is_due(self) -> bool:
        period = self.settings.saving_period_by_batches
        return period > 0 and self.position.rounds % period == 0

    def _after_round(self, outcome: RoundResult, following: Prepared | None) -> None:
        """What happens between two rounds: tests, snapshots, checkpoints, the end."""
        flags = outcome.flags
        if not (flags or self.saver.busy or self.settings.test_period or self.settings.saving_period_by_batches):
            return
        cut = flags & (Flags.CHECKPOINT | Flags.STOP)
        self.saver.poll()
        if Flags.OUT_OF_DATA in flags and not (cut and self.task.is_asynchronous):
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
        if testing and following is not None:
            # The test has used the room for rows; only now, because this releases rows for the other trainers too.
            self.session.begin(following, again=True)
            self.session.timings.restart()

    def _end_pass(self) -> None:
        sums = self.session.reduce(np.append(self.totals.vector, [self.session.sent, self.session.dropped]))
        self.session.sent = self.session.dropped = 0
        merged = self.totals.values(sums[:-2])
        state.agree_on_buffers(self.model, self.trainers, self.session.reduce)
        tested, all_tested = self.test() if self.config.test else (None, None)
        told = self.trainer == 0 and self.session.tables.specs
        tables, services = self.session.statistics() if told else (None, None)
        event = Pass(
            pass_id=self.position.pass_id,
            round=self.session.round,
            samples=self.position.samples,
            train=merged,
            test=all_tested,
            tables=tables,
            services=services,
            dropped=float(sums[-1] / max(sums[-2], 1)) if self.task.is_asynchronous else None,
            **self._rows(int(sums[1])),
        )
        own = (tested.samples, tested.values()) if tested else None
        self.recorder.end_pass(event, self.position.batch, self.totals, own)
        self._save_pass(all_tested)
        self.position = Position(self.position.pass_id + 1, samples=self.position.samples, best=self.position.best)
        stopping = self.session.reduce(np.array([float(self._stop_requested())]))[0] > 0
        self._checkpoint()
        if stopping and not self._is_over(self.position.pass_id):
            self._stop()

    def _rows(self, used: int) -> dict[str, int]:
        """Of streamed data: the rows of a pass, and those of them that were trained on, which the log tells."""
        if not isinstance(self.config.train, Stream) or self.settings.own_data:
            return {}
        rows = self.config.train.rows(Shard())
        log.info(logs.rows_line(rows, used))
        if used < rows and self.trainer == 0:
            self.recorder.report(Notice(logs.rows_line(rows, used)))
        return {"rows": rows, "used": used}

    def _save_pass(self, tested: Mapping[str, float] | None) -> None:
        """The snapshot of a pass that has ended, if it is to have one. The best has one if training may stop after it."""
        position, rule = self.position, self.rule
        due: object = position.pass_id % self.settings.saving_period == 0 or position.pass_id == self.passes - 1
        if rule and tested and (due or rule.patience):
            better = rule.better(position.best, position.pass_id, tested)
            position.best = better or position.best
            due = due or better
        if due or self._is_over(position.pass_id + 1):
            self.saver.snapshot(position.pass_id, None, position.best)
        if rule and position.best and self.trainer == 0 and rule.is_over(position.best, position.pass_id + 1):
            self.recorder.report(Notice(rule.reason(position.best)))

    def _checkpoint(self) -> None:
        """A consistent cut. Rounds give one for free; without them a barrier stands before it and after it is written."""
        self._checkpointed = time.monotonic()
        if self.task.is_asynchronous:
            self.session.reduce(np.zeros(1))
        self.saver.checkpoint(self.position, state.pack(self.position, self.totals.vector, self.model))
        if self.task.is_asynchronous:
            self.saver.finish()
            self.session.reduce(np.zeros(1))

    def _stop(self) -> None:
        self.saver.finish()
        saved = ", with a checkpoint" if self.saver.checkpoints else ""
        raise Stopped(f"stopped in pass {self.position.pass_id}, round {self.session.round}{saved}")

    def test(self) -> tuple[Totals, dict[str, float]]:
        """Test on this trainer's share of the test data, or on all of them: its own totals, and the values of all trainers."""
        return test(self.feed, self.recorder.alive)

    def run(self, batch: Mapping[str, Any]) -> tuple[Any, Any]:
        """The model's output for a batch, and its loss."""
        return self.feed.run(batch)

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
