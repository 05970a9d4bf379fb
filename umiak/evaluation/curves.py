"""Draws metrics.jsonl as curves: one panel per metric, training and test by pass, the baseline as a dashed line."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from umiak.extras import missing
from umiak.files import atomic, read_bytes
from umiak.messages import events
from umiak.messages.events import Baseline, Compared, Pass

_TRAIN, _TEST, _BASE, _INK = "#8a9bb0", "#c8442f", "#4a4a4a", "#333333"


def draw(metrics_jsonl: Path, png: Path) -> bool:
    """Whether there is something to draw, and matplotlib to draw it: at least one finished pass."""
    if missing("plot"):
        return False
    found = events.decode_lines(read_bytes(metrics_jsonl))
    # A restarted job repeats what came after its checkpoint: the later line is the one that counts.
    passes = {event.pass_id: event for event in found if isinstance(event, Pass)}
    if not passes:
        return False
    baseline = next((event.baseline for event in reversed(found) if isinstance(event, Compared)), None)

    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(dict.fromkeys(name for event in passes.values() for name in {**event.train, **(event.test or {})}))
    style = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#999999"}
    with pyplot.rc_context(style):
        figure, axes = pyplot.subplots(
            1, len(names), figsize=(4.6 * len(names), 3.2), squeeze=False, layout="constrained"
        )
        for axis, name in zip(axes[0], names, strict=True):
            _panel(axis, name, passes, baseline)
        image = BytesIO()
        figure.savefig(image, dpi=150, format="png")
        pyplot.close(figure)
    with atomic(png) as file:
        file.write(image.getbuffer())
    return True


def _panel(axis: Any, name: str, passes: Mapping[int, Pass], baseline: Baseline | None) -> None:
    values: list[float] = []
    by_pass = [(number, event.train, event.test or {}) for number, event in sorted(passes.items())]
    curves = (
        ("train", _TRAIN, [(n, train) for n, train, _ in by_pass]),
        ("test", _TEST, [(n, test) for n, _, test in by_pass]),
    )
    for part, colour, found in curves:
        points = {number: values[name] for number, values in found if name in values}
        if points:
            axis.plot(list(points), list(points.values()), "o-", color=colour, lw=2, ms=4, label=part, zorder=3)
            values += points.values()
    if baseline and baseline.metric == name:
        value = baseline.value
        axis.axhline(value, color=_BASE, lw=1.2, ls="--", label=f"{baseline.name} {value:.4g}", zorder=2)
        values.append(value)
    room = 0.08 * (max(values) - min(values) or abs(values[0]) or 1)
    axis.set_ylim(min(values) - room, max(values) + room)
    axis.set_title(name, loc="left", color=_INK, fontweight="bold")
    axis.set_xlabel("pass", color=_INK)
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.grid(axis="y", color="#e6e6e6", lw=0.8)
    axis.tick_params(colors=_INK, length=0)
    axis.legend(frameon=False)
