"""Draws metrics.jsonl as curves: one panel per metric, training and test by pass, the baseline as a dashed line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from umiak.files import atomic, read_bytes

_TRAIN, _TEST, _BASE, _INK = "#8a9bb0", "#c8442f", "#4a4a4a", "#333333"


def draw(metrics_jsonl: Path, png: Path) -> None:
    """Needs at least one finished pass; draws nothing without."""
    events = list(_events(metrics_jsonl))
    # A restarted job repeats what came after its checkpoint: the later line is the one that counts.
    passes = {event["pass"]: event for event in events if event.get("event") == "pass"}
    if not passes:
        return
    baseline = next((event["baseline"] for event in reversed(events) if event.get("baseline")), None)

    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(
        dict.fromkeys(name for event in passes.values() for name in {**event["train"], **(event["test"] or {})})
    )
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


def _panel(axis: Any, name: str, passes: dict[int, Any], baseline: Any) -> None:
    values: list[float] = []
    for part, colour in (("train", _TRAIN), ("test", _TEST)):
        points = {p: event[part][name] for p, event in sorted(passes.items()) if name in (event.get(part) or {})}
        if points:
            axis.plot(list(points), list(points.values()), "o-", color=colour, lw=2, ms=4, label=part, zorder=3)
            values += points.values()
    if baseline and baseline["metric"] == name:
        value = baseline["value"]
        axis.axhline(value, color=_BASE, lw=1.2, ls="--", label=f"{baseline['name']} {value:.4g}", zorder=2)
        values.append(value)
    room = 0.08 * (max(values) - min(values) or abs(values[0]) or 1)
    axis.set_ylim(min(values) - room, max(values) + room)
    axis.set_title(name, loc="left", color=_INK, fontweight="bold")
    axis.set_xlabel("pass", color=_INK)
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.grid(axis="y", color="#e6e6e6", lw=0.8)
    axis.tick_params(colors=_INK, length=0)
    axis.legend(frameon=False)


def _events(path: Path) -> Iterator[Any]:
    """Whole lines only: a job that was killed may have left half a line."""
    for line in read_bytes(path).splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue
