"""From runs to figures: medians, ratios of runs that stood side by side, spread and noise; as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from umiak.bench.driver import Measured
from umiak.bench.systems import BASELINE, FEEDERS, SYNC_PADDLES

NOISY = 0.05
BASELINE_COLUMN = 7
"""Shown only where a baseline was measured."""


@dataclass(frozen=True)
class Figure:
    """One system on one workload. Ratios are medians over pairs of runs of the same round."""

    workload: str
    system: str
    samples_per_s: float
    unit: str
    low: float
    high: float
    of_limit: float | None
    of_paddle: float | None
    of_paddle_best: float | None
    others: float
    runs: int
    of_baseline: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "workload": self.workload,
            "system": self.system,
            "samples_per_s": self.samples_per_s,
            "of_limit": self.of_limit,
            "of_paddle": self.of_paddle,
            "of_paddle_best": self.of_paddle_best,
            "unit": self.unit,
            "low": self.low,
            "high": self.high,
            "others": self.others,
            "runs": self.runs,
            "of_baseline": self.of_baseline,
        }


def figures(measured: Measured) -> list[Figure]:
    rates = {system: [run["samples_per_s"] for run in runs] for system, runs in measured.runs.items() if runs}
    paddles = [name for name in rates if name.startswith("paddle")]
    # The slower of its two settings had its turns in two rounds only, which may have been fast ones for everybody.
    settings = [name for name in paddles if name in SYNC_PADDLES]
    sync = max(settings, key=lambda name: (len(rates[name]), median(rates[name])), default=None)
    others = [name for name in paddles if name == sync or name not in SYNC_PADDLES]
    best = max(others, key=lambda name: median(rates[name]), default=None)
    return [
        Figure(
            workload=measured.workload,
            system=system,
            samples_per_s=median(values),
            unit=measured.runs[system][0].get("unit", "samples/s"),
            low=min(values),
            high=max(values),
            of_limit=ratio(values, rates.get("limit")),
            of_paddle=ratio(values, rates[sync]) if sync else None,
            of_paddle_best=ratio(values, rates[best]) if best else None,
            others=median(run["others"] for run in measured.runs[system]),
            runs=len(values),
            of_baseline=ratio(values, rates.get(BASELINE)),
        )
        for system, values in rates.items()
    ]


def ratio(values: Sequence[float], others: Sequence[float] | None) -> float | None:
    """The median over pairs: two runs of one round share the machine's mood, two medians need not."""
    pairs = list(zip(values, others or (), strict=False))
    return median(value / other for value, other in pairs) if pairs else None


def feeders(measured: Measured) -> list[str]:
    """How umiak's own reading compares with the faster of the libraries that fed the same trainers, if any did."""
    rates = {name: [run["samples_per_s"] for run in measured.runs.get(name, [])] for name in ("umiak", *FEEDERS)}
    best = max((name for name in FEEDERS if rates[name]), key=lambda name: median(rates[name]), default=None)
    found = ratio(rates["umiak"], rates[best]) if best else None
    return (
        []
        if found is None
        else [f"umiak feeds its trainers {found:.2f} × as fast as {best}, the faster of the libraries"]
    )


def table(all_figures: Sequence[Figure]) -> str:
    """The figures for people."""
    head = ("workload", "system", "median", "", "low … high", "of limit", "of paddle", "of baseline", "others", "runs")
    lines = [head, *map(_cells, all_figures)]
    if all(figure.of_baseline is None for figure in all_figures):
        lines = [line[:BASELINE_COLUMN] + line[BASELINE_COLUMN + 1 :] for line in lines]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    left = {0, 1, 3}
    text = [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    noisy = sorted({figure.workload for figure in all_figures if figure.others > NOISY})
    if noisy:
        text += [
            "",
            f"Others used more than {NOISY:.0%} of this machine during {', '.join(noisy)}: measure again when it is quiet.",
        ]
    return "\n".join(text)


def _cells(figure: Figure) -> tuple[str, ...]:
    return (
        figure.workload,
        figure.system,
        f"{figure.samples_per_s:,.0f}",
        figure.unit,
        f"{figure.low:,.0f} … {figure.high:,.0f}",
        _share(figure.of_limit),
        _share(figure.of_paddle),
        _share(figure.of_baseline, 3),
        f"{figure.others:.0%}",
        str(figure.runs),
    )


def _share(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"
