"""The curves of a run by name, and a part of one with as many points as a screen can show. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from umiak.page.answers import Axis, Group, Pass, Series, SeriesName
from umiak.page.columns import Columns, Floats, reduced
from umiak.page.history import PARTS, History


@dataclass(frozen=True)
class Curve:
    group: Group
    rounds: Floats
    times: Floats
    values: Floats


class Curves:
    """Of metrics.jsonl, which forgets what a restart undid, and of events.jsonl, which tells more."""

    def __init__(self, metrics: History, events: History) -> None:
        self.passes = metrics.passes or events.passes
        self._metrics, self._events = metrics, events
        self._merged: dict[str, Curve] = {}

    def names(self) -> list[SeriesName]:
        return [{"name": name, "group": group, "points": points} for name, group, points in self._listed()]

    def _listed(self) -> Iterator[tuple[str, Group, int]]:
        if points := max(len(self._metrics.rounds), len(self._events.rounds)):
            yield "cost", "cost", points
            yield "samplesPerSecond", "speed", points
        for kind in ("train", "test"):
            for name in _keys(self.passes, kind):
                yield f"{kind}/{name}", "metric", len(self.passes)
        tables = dict.fromkeys(table for each in self.passes for table in each["tables"] or {})
        for table in tables:
            columns = dict.fromkeys(key for each in self.passes for key in (each["tables"] or {}).get(table, {}))
            for column in columns:
                yield f"table/{table}/{column}", "table", len(self.passes)
        for worker, work in sorted(self._events.work.items()):
            for part in PARTS:
                yield f"work/{worker}/{part}", "work", len(work)
            for way in ("sent", "received"):
                yield f"bytes/{worker}/{way}", "bytes", len(work)
        for (worker, role), columns_of in sorted(self._events.processes.items()):
            yield f"memory/{worker}/{role}", "memory", len(columns_of)
            yield f"cpu/{worker}/{role}", "cpu", len(columns_of)

    def find(self, name: str) -> Curve | None:
        first, _, rest = name.partition("/")
        if name in ("cost", "samplesPerSecond"):
            return self._round_curve(name)
        if first in ("train", "test"):
            return self._pass_curve(
                "metric",
                [(each["train"] if first == "train" else each["test"] or {}).get(rest) for each in self.passes],
            )
        if first == "table":
            table, _, column = rest.rpartition("/")
            return self._pass_curve(
                "table", [(each["tables"] or {}).get(table, {}).get(column) for each in self.passes]
            )
        worker, _, last = rest.partition("/")
        if first in ("work", "bytes") and worker.isdecimal() and (found := self._events.work.get(int(worker))):
            return _column("work" if first == "work" else "bytes", found, last)
        if (
            first in ("memory", "cpu")
            and worker.isdecimal()
            and (found := self._events.processes.get((int(worker), last)))
        ):
            return _column("memory" if first == "memory" else "cpu", found, first)
        return None

    def _round_curve(self, name: str) -> Curve:
        if name not in self._merged:
            self._merged[name] = self._merge(name)
        return self._merged[name]

    def _merge(self, name: str) -> Curve:
        group: Group = "cost" if name == "cost" else "speed"
        one, two = self._metrics.rounds, self._events.rounds
        if not len(one) or not len(two):
            only = one if len(one) else two
            return Curve(group, only["round"], only["time"], only[name])
        rounds, chosen = np.unique(np.concatenate([one["round"], two["round"]]), return_index=True)
        both = [np.concatenate([one[key], two[key]])[chosen] for key in ("time", name)]
        return Curve(group, rounds, both[0], both[1])

    def _pass_curve(self, group: Group, values: list[float | None]) -> Curve:
        kept = [(each, value) for each, value in zip(self.passes, values, strict=True) if value is not None]
        rounds = np.array([float(each["round"]) for each, _ in kept])
        times = np.array([math.nan if each["time"] is None else each["time"] for each, _ in kept])
        return Curve(group, rounds, times, np.array([value for _, value in kept]))

    def passes_at(self, rounds: Floats) -> Floats:
        """How many passes were over at these rounds: the end of pass 0 is 1, half of the next is 1.5."""
        ends = [each["round"] for each in self.passes]
        if not ends:
            return np.zeros(len(rounds))
        length = ends[-1] - ends[-2] if len(ends) > 1 else max(1, ends[-1])
        at = [0.0, *ends, ends[-1] + 1000.0 * max(1, length)]
        first = self.passes[0]["pass"]
        done = [float(first), *(each["pass"] + 1.0 for each in self.passes), self.passes[-1]["pass"] + 1001.0]
        return np.interp(rounds, at, done)

    def part(self, name: str, axis: Axis, low: float | None, high: float | None, pixels: int) -> Series | None:
        curve = self.find(name)
        if curve is None:
            return None
        x = curve.times if axis == "time" else self.passes_at(curve.rounds) if axis == "pass" else curve.rounds
        known = ~np.isnan(x)
        x, y = (x, curve.values) if known.all() else (x[known], curve.values[known])
        if len(x) > 1 and np.any(np.diff(x) < 0):
            order = np.argsort(x, kind="stable")
            x, y = x[order], y[order]
        whole = (float(x[0]), float(x[-1])) if len(x) else (None, None)
        start = 0 if low is None else int(np.searchsorted(x, low))
        end = len(x) if high is None else int(np.searchsorted(x, high, side="right"))
        shown_x, shown_y = reduced(x[start:end], y[start:end], pixels)
        return {
            "name": name,
            "axis": axis,
            "x": shown_x.tolist(),
            "y": [value if math.isfinite(value) else None for value in shown_y.tolist()],
            "points": end - start,
            "from": whole[0],
            "to": whole[1],
        }


def _column(group: Group, columns: Columns, name: str) -> Curve | None:
    return Curve(group, columns["round"], columns["time"], columns[name]) if name in columns.names[2:] else None


def _keys(passes: list[Pass], kind: str) -> list[str]:
    return list(
        dict.fromkeys(key for each in passes for key in (each["train"] if kind == "train" else each["test"] or {}))
    )
