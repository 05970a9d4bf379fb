"""What is known about a running job, gathered from its events. Knows nothing of terminals; umiak/cli/display.py shows it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Event = Mapping[str, Any]


@dataclass
class Progress:
    start: Event = field(default_factory=dict)
    phases: dict[int, str] = field(default_factory=dict)
    round: Event = field(default_factory=dict)
    passes: dict[int, Event] = field(default_factory=dict)
    checkpoint: Event = field(default_factory=dict)
    restarts: list[Event] = field(default_factory=list)
    done: Event = field(default_factory=dict)
    costs: deque[float] = field(default_factory=lambda: deque(maxlen=12))
    baseline: Event | None = None

    def apply(self, event: Event) -> None:
        match event["event"]:
            case "start":
                self.start = event
                self.phases = dict.fromkeys(range(event["workers"]), "starting") | self.phases
            case "phase":
                self.phases[event["worker"]] = event["phase"]
            case "round":
                self.round = event
                self.costs.append(event["cost"])
            case "pass":
                self.passes[event["pass"]] = event
                self.round = {}
            case "checkpoint":
                self.checkpoint = event
            case "restart":
                self.restarts.append(event)
                # A restart goes back to a checkpoint: what came after it is counted again.
                self.round = {}
            case "done":
                self.done = event
                # A resumed run knows its earlier passes only from here.
                self.passes = {each["pass"]: each for each in event["passes"]} | self.passes
        self.baseline = event.get("baseline") or self.baseline

    def batches(self) -> int | None:
        """How many batches the current pass has: as reported, or as many as the pass before had rounds."""
        if self.round.get("batches"):
            return int(self.round["batches"])
        before = self.passes.get(self.round["pass"] - 1, {})
        earlier = self.passes.get(self.round["pass"] - 2, {})
        return int(before["round"] - earlier.get("round", 0)) if "round" in before else None

    def metrics(self) -> list[tuple[str, str]]:
        """The columns of a table of passes: (train or test, name), cost first, in the order they appeared."""
        seen: dict[tuple[str, str], None] = {}
        for part in ("train", "test"):
            for event in self.passes.values():
                seen |= dict.fromkeys((part, name) for name in event.get(part) or {})
        return list(seen)

    def best(self) -> tuple[int, float] | None:
        """The pass with the best value of the baseline's metric, and that value. Smaller is better but for AUC."""
        if self.baseline is None:
            return None
        name = self.baseline["metric"]
        values = {p: e["test"][name] for p, e in self.passes.items() if name in (e.get("test") or {})}
        if not values:
            return None
        choose = max if "auc" in name.lower() else min
        best = choose(values, key=lambda p: values[p])
        return best, values[best]


def number(value: float) -> str:
    """A metric: five significant digits, the same width for values of one size."""
    if value == 0 or not math.isfinite(value) or 1e-3 <= abs(value) < 1e5:
        return f"{value:.{max(0, 4 - max(0, _magnitude(value)))}f}"
    return f"{value:.3e}"


def _magnitude(value: float) -> int:
    return math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def spark(values: list[float]) -> str:
    """A curve in one line of text."""
    values = [value for value in values if math.isfinite(value)]
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    steps = "▁▂▃▄▅▆▇█"
    return "".join(steps[round((value - low) / ((high - low) or 1) * (len(steps) - 1))] for value in values)
