"""What a trainer writes about its progress: lines in its log, and (trainer 0) metrics.jsonl and TensorBoard events."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from umiak import logs
from umiak.extras import missing
from umiak.files import append, atomic, is_mendable, read_bytes
from umiak.messages import events
from umiak.messages.events import Alive, Event, Pass, Round, Work
from umiak.rundir import layout
from umiak.trainer.totals import Totals

REPORT_SECONDS = 0.5
log = logging.getLogger("umiak.trainer")


class Curves:
    """metrics.jsonl and TensorBoard events of a run. Reopened after a restart, both forget what lies past `round_id`."""

    def __init__(self, out: Path, round_id: int) -> None:
        self.path = out / layout.METRICS
        self._forget(round_id)
        self._board = None
        if not missing("tensorboard"):
            from umiak.trainer.board import Board

            self._board = Board(out / layout.TENSORBOARD, round_id)

    def _forget(self, round_id: int) -> None:
        """Written beside and renamed: whoever is killed here has the old lines or the new ones."""
        try:
            before = read_bytes(self.path)
        except FileNotFoundError:
            return
        rounds = [(line, events.round_in_line(line)) for line in before.splitlines()]
        kept = b"".join(line + b"\n" for line, number in rounds if number is not None and number <= round_id)
        if kept != before:
            with atomic(self.path) as file:
                file.write(kept)

    def write(self, event: Pass | Round) -> None:
        append(self.path, events.encode_line(event, datetime.now(UTC)))
        if self._board:
            self._board.add(events.scalars(event), event.round)


class Recorder:
    """Logs one trainer's progress and reports it to whoever watches."""

    def __init__(
        self,
        report: Callable[[Event], None],
        curves: Curves | None,
        log_period: int,
        dot_period: int,
        dots: TextIO | None,
        work: Callable[[], Work | None] = lambda: None,
    ) -> None:
        self.report, self.curves, self.log_period, self.dot_period, self.dots = (
            report,
            curves,
            log_period,
            dot_period,
            dots,
        )
        self._work = work
        self._last = self._begun = time.monotonic()
        self._samples = 0

    def alive(self) -> None:
        """Tell whoever watches that work continues outside rounds."""
        if time.monotonic() - self._last > REPORT_SECONDS:
            self._last = time.monotonic()
            self.report(Alive())

    def _dot(self, text: str) -> None:
        """Straight into the log, between its lines. A volume that fails for a moment ends no training for a dot."""
        if self.dots and self.dot_period:
            try:
                self.dots.write(text)
            except OSError as error:
                if is_mendable(error):
                    raise

    def begin_pass(self, totals: Totals) -> None:
        self._begun = time.monotonic()
        self._before = totals.vector.copy()

    def round(
        self, round_id: int, pass_id: int, batch: int, batch_ended: bool, totals: Totals, cost: float, samples: int
    ) -> None:
        """After a round: `cost` is its mean over all trainers, `totals` and `batch` are this trainer's own."""
        self._samples += samples
        if batch_ended and self.dot_period and batch % self.dot_period == 0:
            self._dot(".")
        due = batch_ended and self.log_period and batch % self.log_period == 0
        if due:
            self._log_batch(batch, totals)
        now = time.monotonic()
        if not due and now - self._last < REPORT_SECONDS:
            return
        event = Round(pass_id, batch, round_id, cost, self._samples / max(now - self._last, 1e-9))
        self._last, self._samples = now, 0
        self.report(event)
        if work := self._work():
            self.report(work)
        if due and self.curves:
            self.curves.write(event)

    def _log_batch(self, batch: int, totals: Totals) -> None:
        average, current = totals.values(), totals.since(self._before)
        self._before = totals.vector.copy()
        self._dot("\n")
        log.info(
            logs.batch_line(batch, totals.samples, average.pop("cost"), current.pop("cost"), average, current),
        )

    def end_pass(self, event: Pass, batch: int, totals: Totals, tested: tuple[int, dict[str, float]] | None) -> None:
        """`totals` and `tested` are this trainer's own; the event holds the values of all."""
        own = totals.values() or {"cost": 0.0}
        self._dot("\n")
        for name, stats in (event.tables or {}).items():
            log.info(logs.table_line(name, stats))
        log.info(logs.pass_line(event.pass_id, batch, totals.samples, own.pop("cost"), own))
        if tested is not None and tested[1]:
            self.test(*tested)
        event = replace(event, seconds=time.monotonic() - self._begun)
        if self.curves:
            self.curves.write(event)
            self.report(event)

    def parameters(self, parameters: Mapping[str, Any]) -> None:
        for name, parameter in parameters.items():
            value, grad = parameter.detach().abs(), parameter.grad.abs()
            log.info(logs.stats_line(name, *(float(x) for x in (value.mean(), value.max(), grad.mean(), grad.max()))))

    def test(self, samples: int, values: dict[str, float]) -> None:
        others = dict(values)
        log.info(logs.test_line(samples, others.pop("cost"), others))
