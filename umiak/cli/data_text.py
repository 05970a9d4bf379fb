"""What `umiak data describe` prints and draws."""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from umiak.extras import needed
from umiak.files import atomic

if TYPE_CHECKING:
    from umiak.data.streaming.describing import Column, Description

WIDTH = 130
"""Where no terminal says how wide it is."""
LONGEST = 24


def show(described: Description) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    index = described.index
    size = sum(file.size for file in index.files)
    held = _many(len(index.files), "file"), f"{size / 1e6:,.1f} MB", _many(len(index.chunks), "chunk")
    print(f"{', '.join(held)}, {_many(int(index.rows.sum()), 'row')}")
    table = Table("column", "type", box=box.SIMPLE_HEAD)
    for name in ("nulls", "distinct", "from", "to", "most frequent", "its share"):
        table.add_column(name, justify="left" if name == "most frequent" else "right")
    for column in described.columns:
        table.add_row(column.name, column.kind, *_cells(column))
    console.print(table)
    rows = [dealt.rows for dealt in described.shards]
    read = sum(dealt.chunks for dealt in described.shards) - len(index.chunks)
    chunks = [dealt.chunks for dealt in described.shards]
    print(f"{_many(len(rows), 'shard')}: {_span(rows)} rows and {_span(chunks)} chunks each; ", end="")
    print(f"{_many(read, 'chunk')} on a border, read by two shards" if read > 0 else "no chunk is read twice")


def _span(counts: list[int]) -> str:
    return f"{min(counts):,}" if min(counts) == max(counts) else f"{min(counts):,} to {max(counts):,}"


def _cells(column: Column) -> tuple[str, ...]:
    if not column.values:
        return f"{column.nulls:,}", "0", "", "", "", ""
    (value, share), distinct = column.shares[0], column.distinct
    about = f"{distinct:,}" if column.exact else f"about {float(f'{distinct:.3g}'):,.0f}"
    return f"{column.nulls:,}", about, _short(column.least), _short(column.most), _short(value), f"{share:.2%}"


def _short(value: Any) -> str:
    text = f"{value:.5g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def draw(described: Description, png: Path) -> None:
    """The share of the most frequent values of each skewed column, by rank, with an even spread dashed."""
    with needed("plot", "--output needs"):
        import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    from umiak.data.streaming.describing import busiest

    shown = busiest(described.columns)[:12] or described.columns[:1]
    wide = min(len(shown), 4)
    tall = -(-len(shown) // wide)
    style = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#999999"}
    with pyplot.rc_context(style):
        figure, axes = pyplot.subplots(
            tall, wide, figsize=(3.4 * wide, 2.6 * tall), squeeze=False, layout="constrained"
        )
        for axis, column in zip(axes.flat, shown, strict=False):
            shares = [share for _, share in column.shares]
            axis.loglog(range(1, len(shares) + 1), shares, "o-", color="#c8442f", ms=3, lw=1.5)
            axis.axhline(1 / max(column.distinct, 1), color="#4a4a4a", ls="--", lw=1)
            axis.set_title(column.name, loc="left", fontweight="bold")
            for side, form in ((axis.xaxis, "{x:.0f}"), (axis.yaxis, "{x:.3g}")):
                side.set_major_formatter(StrMethodFormatter(form))
                side.set_minor_formatter(NullFormatter())
            axis.set_xlabel("rank of a value")
            axis.set_ylabel("share of rows")
        for axis in axes.flat[len(shown) :]:
            axis.set_visible(False)
        image = BytesIO()
        figure.savefig(image, dpi=130, format="png")
        pyplot.close(figure)
    with atomic(png) as file:
        file.write(image.getbuffer())
