"""What is known about a running job, gathered from its events. Knows nothing of terminals; umiak/display/screen.py shows it."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from umiak.messages.events import (
    Baseline,
    Checkpoint,
    Compared,
    Done,
    Event,
    Pass,
    Phase,
    Restart,
    Round,
    Start,
    Values,
)


@dataclass
class Progress:
    start: Start | None = None
    phases: dict[int, str] = field(default_factory=dict)
    round: Round | None = None
    passes: dict[int, Pass] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    restarts: list[Restart] = field(default_factory=list)
    done: Done | None = None
    costs: deque[float] = field(default_factory=lambda: deque(maxlen=12))
    baseline: Baseline | None = None

    def apply(self, event: Event) -> None:
        match event:
            case Start():
                self.start = event
                self.phases = dict.fromkeys(range(event.workers), "starting") | self.phases
            case Phase():
                self.phases[event.worker] = event.phase
            case Round():
                self.round = event
                self.costs.append(event.cost)
            case Pass():
                self.passes[event.pass_id] = event
                self.round = None
            case Checkpoint():
                self.checkpoint = event
            case Restart():
                self.restarts.append(event)
                # A restart goes back to a checkpoint: what came after it is counted again.
                self.round = None
            case Done():
                self.done = event
                # A resumed run knows its earlier passes only from here.
                self.passes = {each.pass_id: each for each in event.passes} | self.passes
                self.baseline = event.baseline or self.baseline
            case Compared():
                self.baseline = event.baseline

    def batches(self) -> int | None:
        """How many batches the current pass has: as many as the pass before had rounds."""
        current = self.round.pass_id if self.round else 0
        before, earlier = self.passes.get(current - 1), self.passes.get(current - 2)
        return before.round - (earlier.round if earlier else 0) if before else None

    def metrics(self) -> list[tuple[str, str]]:
        """The columns of a table of passes: (train or test, name), cost first, in the order they appeared."""
        seen: dict[tuple[str, str], None] = {}
        for part in ("train", "test"):
            for event in self.passes.values():
                seen |= dict.fromkeys((part, name) for name in values_of(event, part))
        return list(seen)

    def best(self) -> tuple[int, float] | None:
        """The pass with the best value of the baseline's metric, and that value. Smaller is better but for AUC."""
        if self.baseline is None:
            return None
        name = self.baseline.metric
        values = {p: e.test[name] for p, e in self.passes.items() if e.test and name in e.test}
        if not values:
            return None
        choose = max if "auc" in name.lower() else min
        best = choose(values, key=lambda p: values[p])
        return best, values[best]


def values_of(event: Pass, part: str) -> Values:
    """Cost and metrics of a pass in training or in its test."""
    return event.train if part == "train" else event.test or {}


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
