"""What a trainer writes about its progress: lines in its log, and (trainer 0) metrics.jsonl and TensorBoard events."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from umiak import logs
from umiak.trainer.totals import Totals

REPORT_SECONDS = 0.5
log = logging.getLogger("umiak.trainer")


class Curves:
    """metrics.jsonl and TensorBoard events of a run. Reopened after a restart, both forget what lies past `round_id`."""

    def __init__(self, out: Path, round_id: int) -> None:
        from tensorboardX import SummaryWriter

        self.path = out / "metrics.jsonl"
        kept = []
        if self.path.exists():
            kept = [line for line in self.path.read_text().splitlines() if _round_of(line) <= round_id]
        self.path.write_text("".join(f"{line}\n" for line in kept))
        self._board = SummaryWriter(str(out / "tensorboard"), purge_step=round_id)

    def write(self, event: Mapping[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(event) + "\n")
        for part in ("train", "test"):
            for name, value in (event.get(part) or {}).items():
                self._board.add_scalar(f"{part}/{name}", value, event["round"])
        for table, stats in event.get("tables", {}).items():
            for name, value in stats.items():
                self._board.add_scalar(f"tables/{table}/{name}", value, event["round"])
        if event["event"] == "round":
            self._board.add_scalar("round/cost", event["cost"], event["round"])
            self._board.add_scalar("round/samples_per_s", event["samples_per_s"], event["round"])
        else:
            self._board.flush()

    def close(self) -> None:
        self._board.close()


class Recorder:
    """Logs one trainer's progress and reports it to whoever watches."""

    def __init__(
        self,
        report: Callable[[dict[str, Any]], None],
        curves: Curves | None,
        log_period: int,
        dot_period: int,
        dots: TextIO | None,
    ) -> None:
        self.report, self.curves, self.log_period, self.dot_period, self.dots = (
            report,
            curves,
            log_period,
            dot_period,
            dots,
        )
        self._last = self._begun = time.monotonic()
        self._samples = 0

    def alive(self) -> None:
        """Tell whoever watches that work goes on outside rounds."""
        if time.monotonic() - self._last > REPORT_SECONDS:
            self._last = time.monotonic()
            self.report({"event": "alive"})

    def begin_pass(self, totals: Totals) -> None:
        self._begun = time.monotonic()
        self._before = totals.vector.copy()

    def round(
        self, round_id: int, pass_id: int, batch: int, batch_ended: bool, totals: Totals, cost: float, samples: int
    ) -> None:
        """After a round: `cost` is its mean over all trainers, `totals` and `batch` are this trainer's own."""
        self._samples += samples
        if batch_ended and self.dots and self.dot_period and batch % self.dot_period == 0:
            self.dots.write(".")
        due = batch_ended and self.log_period and batch % self.log_period == 0
        if due:
            self._log_batch(batch, totals)
        now = time.monotonic()
        if not due and now - self._last < REPORT_SECONDS:
            return
        event = {"event": "round", "pass": pass_id, "batch": batch, "round": round_id, "cost": cost}
        event["samples_per_s"] = self._samples / max(now - self._last, 1e-9)
        self._last, self._samples = now, 0
        self.report(event)
        if due and self.curves:
            self.curves.write(event)

    def _log_batch(self, batch: int, totals: Totals) -> None:
        average, current = totals.values(), totals.since(self._before)
        self._before = totals.vector.copy()
        if self.dots and self.dot_period:
            self.dots.write("\n")
        log.info(
            logs.batch_line(batch, totals.samples, average.pop("cost"), current.pop("cost"), average, current),
        )

    def end_pass(
        self, event: dict[str, Any], batch: int, totals: Totals, tested: tuple[int, dict[str, float]] | None
    ) -> None:
        """`totals` and `tested` are this trainer's own; the event holds the values of all."""
        own = totals.values() or {"cost": 0.0}
        if self.dots and self.dot_period:
            self.dots.write("\n")
        for name, stats in event.get("tables", {}).items():
            log.info(logs.table_line(name, stats))
        log.info(logs.pass_line(event["pass"], batch, totals.samples, own.pop("cost"), own))
        if tested is not None and tested[1]:
            self.test(*tested)
        event["seconds"] = time.monotonic() - self._begun
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


def _round_of(line: str) -> int:
    try:
        return int(json.loads(line)["round"])
    except (ValueError, KeyError, TypeError):
        return 1 << 62
