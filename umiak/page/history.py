"""What the events of a run amount to: curves, passes, phases and changes. One for metrics.jsonl, one for events.jsonl."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from umiak.contract import reasons
from umiak.page.answers import Baseline, Change, Held, Kind, Pass, Process, Span, Work
from umiak.page.columns import Columns
from umiak.page.values import MOST_COUNT, count, finite, number, numbers, seconds

CHANGES = 2000
"""So many of the newest changes and phases are kept."""
PAUSE_SECONDS = 120.0
"""A run at work tells something every few seconds. After a longer silence it was started again."""
UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
PARTS = ("computing", "waiting", "transfer", "data")


class History:
    def __init__(self) -> None:
        self.rounds = Columns(("round", "time", "cost", "samplesPerSecond"), "round")
        self.work: dict[int, Columns] = {}
        self.processes: dict[tuple[int, str], Columns] = {}
        self.passes: list[Pass] = []
        self.spans: list[Span] = []
        self.changes: list[Change] = []
        self.newest_work: dict[int, Work] = {}
        self.newest_processes: dict[tuple[int, str], Process] = {}
        self.baseline: Baseline | None = None
        self.failed: dict[str, Any] | None = None
        """The event that told of the failure it ended by."""
        self.workers: int | None = None
        self.started = self.updated = self.finished = math.nan
        self.checkpoint: tuple[int, float] | None = None
        """Round and time of the newest one that was told of."""
        self.lost = 0.0
        """Seconds until a run that began again was where it had been."""
        self.unreadable = 0
        self._pauses: list[tuple[float, float]] = []
        self._restarted: tuple[float, float] | None = None

    @property
    def bytes(self) -> int:
        """In memory, of what may be many."""
        tables = [self.rounds, *self.work.values(), *self.processes.values()]
        return (
            sum(table.bytes for table in tables) + 1000 * len(self.passes) + 300 * (len(self.changes) + len(self.spans))
        )

    def add(self, events: Sequence[Mapping[str, Any]]) -> None:
        rounds: list[Mapping[str, Any]] = []
        for event in events:
            if event.get("event") == "round":
                rounds.append(event)
                continue
            self._add_rounds(rounds)
            rounds = []
            try:
                self._apply(event)
            except UNREADABLE:
                self.unreadable += 1
        self._add_rounds(rounds)

    def _add_rounds(self, events: Sequence[Mapping[str, Any]]) -> None:
        if not events:
            return
        rows: dict[str, list[float]] = {name: [] for name in self.rounds.names}
        for event in events:
            try:
                round_id, cost, speed = float(event["round"]), float(event["cost"]), float(event["samples_per_s"])
            except UNREADABLE:
                self.unreadable += 1
                continue
            if not 0 <= round_id < MOST_COUNT:
                self.unreadable += 1
                continue
            rows["round"].append(round_id)
            rows["cost"].append(cost)
            rows["samplesPerSecond"].append(speed)
            rows["time"].append(seconds(event["time"]) if "time" in event else math.nan)
        if not rows["round"]:
            return
        self.rounds.append(rows)
        self._seen(rows["time"][-1])
        if self._restarted and rows["round"][-1] >= self._restarted[1]:
            self.lost += number(max(0.0, rows["time"][-1] - self._restarted[0])) or 0.0
            self._restarted = None

    def _seen(self, time: float) -> None:
        if math.isnan(time):
            return
        self.started = time if math.isnan(self.started) else self.started
        if not math.isnan(self.updated) and time - self.updated > PAUSE_SECONDS:
            self._pauses.append((self.updated, time))
        self.updated = time

    def worked(self, until: float) -> float:
        """Seconds from the start until then, without the pauses in which nobody trained."""
        paused = sum(min(end, until) - start for start, end in self._pauses if start < until)
        return max(0.0, until - self.started - paused)

    def lost_until(self, now: float) -> float:
        """Seconds that restarts have cost, also one that has not caught up yet."""
        return self.lost + (max(0.0, now - self._restarted[0]) if self._restarted else 0.0)

    def _apply(self, event: Mapping[str, Any]) -> None:
        kind, time = event.get("event"), seconds(event.get("time"))
        self._seen(time)
        if kind == "pass":
            self._pass(event, time)
        elif kind == "work":
            self._work(event, time)
        elif kind == "processes":
            self._processes(event, time)
        elif kind == "phase":
            self._phase(count(event["worker"]), str(event["phase"]), time)
        elif kind == "baseline":
            given = event["baseline"]
            self.baseline = {
                "name": str(given["name"]),
                "metric": str(given["metric"]),
                "value": finite(given["value"]),
            }
        elif kind in ("start", "restart", "checkpoint", "snapshot", "note", "failed", "done"):
            self._change(kind, event, time)

    def _pass(self, event: Mapping[str, Any], time: float) -> None:
        number_of = count(event["pass"])
        tables, services = event.get("tables"), event.get("services")
        test = event.get("test")
        held: list[Held] | None = (
            [{"rows": finite(each["rows"]), "bytes": finite(each["bytes"])} for each in services] if services else None
        )
        made: Pass = {
            "pass": number_of,
            "round": count(event["round"]),
            "samples": count(event["samples"]),
            "seconds": finite(event.get("seconds", 0.0)),
            "time": number(time),
            "train": numbers(event["train"]),
            "test": numbers(test) if test else None,
            "tables": {str(name): numbers(values) for name, values in tables.items()} if tables else None,
            "services": held,
        }
        self.passes = [each for each in self.passes if each["pass"] < number_of] + [made]

    def _work(self, event: Mapping[str, Any], time: float) -> None:
        worker, rounds = count(event["worker"]), max(1, count(event["rounds"]))
        parts = {name: finite(event[name]) for name in PARTS}
        sent, received = count(event["bytes_sent"]), count(event["bytes_received"])
        self.newest_work[worker] = {
            "worker": worker,
            "time": number(time) or 0.0,
            "rounds": rounds,
            "seconds": finite(event["seconds"]),
            "computing": parts["computing"],
            "waiting": parts["waiting"],
            "transfer": parts["transfer"],
            "data": parts["data"],
            "bytesSent": sent,
            "bytesReceived": received,
        }
        row = {
            "time": time,
            "round": float(count(event["round"])),
            "sent": sent / rounds,
            "received": received / rounds,
        }
        row |= {name: value / rounds for name, value in parts.items()}
        self.work_of(worker).append({name: [value] for name, value in row.items()})

    def work_of(self, worker: int) -> Columns:
        return self.work.setdefault(worker, Columns(("time", "round", *PARTS, "sent", "received"), "time"))

    def processes_of(self, worker: int, role: str) -> Columns:
        return self.processes.setdefault((worker, role), Columns(("time", "round", "memory", "cpu"), "time"))

    def _processes(self, event: Mapping[str, Any], time: float) -> None:
        worker = count(event["worker"])
        last = float(self.rounds["round"][-1]) if len(self.rounds) else math.nan
        for role, values in event["processes"].items():
            memory, cpu = finite(values["memory"]), finite(values["cpu"])
            self.newest_processes[worker, role] = {"worker": worker, "role": role, "memory": memory, "cpu": cpu}
            table = self.processes_of(worker, role)
            table.append({"time": [time], "round": [last], "memory": [memory], "cpu": [cpu]})

    def _phase(self, worker: int, phase: str, time: float) -> None:
        if math.isnan(time):
            return
        self._end_span(worker, time)
        self.spans.append({"worker": worker, "from": time, "to": None, "phase": phase})
        _cut(self.spans)

    def _end_span(self, worker: int | None, time: float) -> None:
        for span in self.spans:
            if span["to"] is None and worker in (None, span["worker"]):
                span["to"] = time

    def _change(self, kind: Kind, event: Mapping[str, Any], time: float) -> None:
        worker = count(event["worker"]) if event.get("worker") is not None else None
        text = str(event.get("cause") or event.get("message") or event.get("text") or event.get("path") or "")
        change: Change = {"time": number(time) or 0.0, "worker": worker, "kind": kind, "text": text}
        self.changes.append(change)
        _cut(self.changes)
        if kind == "checkpoint":
            self.checkpoint = (count(event["round"]), time)
        if kind == "start":
            self.workers = count(event["workers"])
        if kind in ("start", "restart"):
            # It runs, whatever an earlier attempt ended by.
            self.finished, self.failed = math.nan, None
        if kind == "restart" and len(self.rounds):
            self._restarted = (time, float(self.rounds["round"][-1]))
        if kind == "failed" and event.get("reason") != reasons.STOPPED:
            self.failed = dict(event)
        if kind in ("failed", "done") and not math.isnan(time):
            self.finished = time
            self._end_span(None, time)

    @property
    def ended_as(self) -> str | None:
        """`failed` or `done`, if that was its last word; a run that was asked to stop has not failed."""
        last = next(
            (each["kind"] for each in reversed(self.changes) if each["kind"] in ("failed", "done", "start", "restart")),
            None,
        )
        return "done" if last == "done" else "failed" if last == "failed" and self.failed else None


def _cut(entries: list[Any]) -> None:
    """Now and then, so that it costs little."""
    if len(entries) > 2 * CHANGES:
        del entries[:-CHANGES]
