"""What is made of a run when its training is over: its curves, and one event that sums it up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from umiak.evaluation.curves import draw
from umiak.files import append, exists, read_bytes
from umiak.rundir import layout
from umiak.spec.load import Loaded


def conclude(out: Path, loaded: Loaded, seconds: float, snapshot: str) -> dict[str, Any]:
    """Draw the curves; the `done` event. `snapshot` is the last one that was written, if it is known."""
    baseline = _baseline(loaded)
    if baseline is not None:
        line = json.dumps({"event": "baseline", "baseline": baseline, "round": 0})
        append(out / layout.METRICS, line.encode() + b"\n")
    plot = out / layout.CURVES
    draw(out / layout.METRICS, plot)
    passes = _finished_passes(out)
    return {
        "event": "done",
        "seconds": seconds,
        "snapshot": snapshot or str(max(out.glob(f"{layout.PASS}*"), default="")),
        "plot": str(plot),
        "passes": [passes[key] for key in sorted(passes)],
        "baseline": baseline,
    }


def _finished_passes(out: Path) -> dict[int, dict[str, Any]]:
    path = out / layout.METRICS
    events = [json.loads(line) for line in read_bytes(path).splitlines()] if exists(path) else []
    return {event["pass"]: event for event in events if event["event"] == "pass"}


def _baseline(loaded: Loaded) -> dict[str, Any] | None:
    baseline = loaded.config.baseline
    if baseline is None:
        return None
    value = baseline.value() if callable(baseline.value) else baseline.value
    return {"name": baseline.name, "metric": baseline.metric, "value": float(value)}
