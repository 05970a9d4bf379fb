"""The table of the bench as a picture: a panel per workload, a bar per system, the limit as a line at 1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from umiak.bench.report import Figure
from umiak.extras import needed

_OURS, _OTHERS, _INK, _LIMIT = "#c8442f", "#8a9bb0", "#333333", "#4a4a4a"


def draw(figures: Sequence[Figure], png: Path) -> None:
    """Of workloads that have a limit, those in which there are others to compare with; if there is none, all."""
    panels = {
        workload: [f for f in figures if f.workload == workload and f.of_limit is not None and f.system != "limit"]
        for workload in dict.fromkeys(figure.workload for figure in figures)
    }
    compared = {w: bars for w, bars in panels.items() if any(not bar.system.startswith("umiak") for bar in bars)}
    panels = compared or {workload: bars for workload, bars in panels.items() if bars}
    if not panels:
        return

    with needed("plot", "the picture of a bench needs"):
        import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    style = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.spines.bottom": False}
    heights = [len(bars) + 1.2 for bars in panels.values()]
    with pyplot.rc_context({**style, "axes.edgecolor": "#999999"}):
        figure, axes = pyplot.subplots(
            len(panels),
            1,
            figsize=(7.2, 0.27 * sum(heights) + 0.4),
            squeeze=False,
            height_ratios=heights,
            layout="constrained",
            sharex=True,
        )
        most = max(1.0, *(bar.of_limit or 0.0 for bars in panels.values() for bar in bars))
        for axis, (workload, bars) in zip(axes[:, 0], panels.items(), strict=True):
            places = range(len(bars))
            colours = [_OURS if bar.system.startswith("umiak") else _OTHERS for bar in bars]
            axis.barh(places, [bar.of_limit for bar in bars], color=colours, height=0.68, zorder=3)
            for place, bar in zip(places, bars, strict=True):
                share = bar.of_limit or 0.0
                inside = share > 0.12 * most
                axis.text(
                    share + (-0.01 if inside else 0.01) * most,
                    place,
                    f"{share:.2f}",
                    va="center",
                    ha="right" if inside else "left",
                    color="white" if inside else _INK,
                    fontsize=8,
                    zorder=4,
                )
                rate = f"{bar.samples_per_s:,.0f} {bar.unit}"
                axis.text(most * 1.3, place, rate, va="center", ha="right", color=_INK, fontsize=8, zorder=4)
            axis.axvline(1.0, color=_LIMIT, lw=1.2, ls="--", zorder=2)
            axis.set_yticks(list(places), [bar.system for bar in bars], color=_INK)
            axis.set_ylim(len(bars) - 0.4, -0.6)
            axis.set_xlim(0, most * 1.32)
            axis.tick_params(length=0, labelbottom=False)
            axis.set_title(workload.replace("_", " "), loc="left", color=_INK, fontweight="bold")
        figure.supxlabel(
            "speed as a share of the limit (dashed): the same work without communication", color=_INK, fontsize=9
        )
        figure.savefig(png, dpi=150)
        pyplot.close(figure)
