"""What is made of a run when its training is over: its curves, and one event that sums it up."""

from __future__ import annotations

from pathlib import Path

from umiak.evaluation.curves import draw
from umiak.files import append, exists, read_bytes
from umiak.messages import events
from umiak.messages.events import Baseline, Compared, Done, Pass
from umiak.rundir import layout
from umiak.spec.load import Loaded


def conclude(out: Path, loaded: Loaded, seconds: float, snapshot: str) -> Done:
    """Draw the curves; the `done` event. `snapshot` is the last one that was written, if it is known."""
    baseline = _baseline(loaded)
    if baseline is not None:
        append(out / layout.METRICS, events.encode_line(Compared(baseline)))
    plot = out / layout.CURVES
    drawn = draw(out / layout.METRICS, plot)
    passes = _finished_passes(out)
    return Done(
        seconds=seconds,
        snapshot=snapshot or str(max(out.glob(f"{layout.PASS}*"), default="")),
        plot=str(plot) if drawn else "",
        passes=tuple(passes[key] for key in sorted(passes)),
        baseline=baseline,
    )


def _finished_passes(out: Path) -> dict[int, Pass]:
    path = out / layout.METRICS
    found = events.decode_lines(read_bytes(path)) if exists(path) else []
    return {event.pass_id: event for event in found if isinstance(event, Pass)}


def _baseline(loaded: Loaded) -> Baseline | None:
    baseline = loaded.config.baseline
    if baseline is None:
        return None
    value = baseline.value() if callable(baseline.value) else baseline.value
    return Baseline(baseline.name, baseline.metric, float(value))
