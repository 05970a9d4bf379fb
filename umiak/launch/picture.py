"""Draws what `umiak show` tells: the parts of a model from input to output, and beside them what each service holds.

A part that trains something has a colour, and its parameters have the same one on the services.
"""

from __future__ import annotations

import colorsys
from collections import defaultdict
from pathlib import Path
from typing import Any

from umiak.spec.outline import Held, Outline, Part

_INK, _LINE, _PLAIN, _EMPTY = "#333333", "#9aa5b1", "#f4f5f7", "#e9ecef"
_WIDTH, _HEIGHT, _GAP = 2.3, 0.56, 0.36
_SERVICE, _BAR = 0.62, 4.4


def draw(outline: Outline, png: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    places = layout(outline.parts)
    colours = _colours(outline)
    columns = max((x for x, _ in places.values()), default=0) + 1
    rows = max((y for _, y in places.values()), default=0) + 1
    wide = columns * (_WIDTH + _GAP)
    high = max(rows * (_HEIGHT + _GAP), len(outline.held) * _SERVICE + 0.8)
    with pyplot.rc_context({"font.size": 7.5, "font.family": "DejaVu Sans"}):
        figure = pyplot.figure(figsize=(wide + _BAR + 1.6, high + 0.7))
        axis = figure.add_axes((0, 0, 1, 1))
        axis.set_xlim(-0.2, wide + _BAR + 1.4)
        axis.set_ylim(high + 0.1, -0.6)
        axis.axis("off")
        axis.text(0, -0.3, outline.title, fontsize=11, fontweight="bold", color=_INK)
        _parts(axis, outline, places, colours)
        _services(axis, outline, wide + 0.5, colours)
        figure.savefig(png, dpi=130)
        pyplot.close(figure)


def layout(parts: tuple[Part, ...]) -> dict[str, tuple[float, int]]:
    """A column and a row for each part: below everything it reads, inputs just above their first reader."""
    known = {part.name: part for part in parts}
    row: dict[str, int] = {}
    for part in parts:
        row[part.name] = 1 + max((row[name] for name in part.inputs if name in row), default=-1)
    readers: dict[str, list[str]] = defaultdict(list)
    for part in parts:
        for name in part.inputs:
            readers[name].append(part.name)
    for name, part in known.items():
        if not part.inputs and readers[name]:
            row[name] = min(row[reader] for reader in readers[name]) - 1
    lowest = min(row.values(), default=0)
    ranks: dict[int, list[str]] = defaultdict(list)
    for name, rank in row.items():
        ranks[rank - lowest].append(name)
    column: dict[str, float] = {}
    widest = max((len(names) for names in ranks.values()), default=1)
    for rank in sorted(ranks):
        names = ranks[rank]
        wanted = {name: _mean([column[i] for i in known[name].inputs if i in column]) for name in names}
        ordered = sorted(names, key=lambda name: (wanted[name] is None, wanted[name] or 0.0))
        middle = _mean([w for w in wanted.values() if w is not None])
        start = (widest - 1) / 2 if middle is None else middle
        start = min(max(start - (len(ordered) - 1) / 2, 0.0), widest - len(ordered))
        column.update({name: start + place for place, name in enumerate(ordered)})
    return {name: (column[name], row[name] - lowest) for name in known}


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _colours(outline: Outline) -> dict[str, str]:
    """A colour per parameter; those of one part are alike, a shared one has the colour of its first part."""
    training = [part for part in outline.parts if part.parameters]
    colours: dict[str, str] = {}
    for number, part in enumerate(training):
        hue = (number * 0.381966) % 1.0
        for place, name in enumerate(part.parameters):
            red, green, blue = colorsys.hls_to_rgb(hue, 0.70 - 0.09 * (place % 3), 0.5)
            colours.setdefault(name, f"#{int(red * 255):02x}{int(green * 255):02x}{int(blue * 255):02x}")
    return colours


def _parts(axis: Any, outline: Outline, places: dict[str, tuple[float, int]], colours: dict[str, str]) -> None:
    from matplotlib.patches import FancyBboxPatch

    def corner(name: str) -> tuple[float, float]:
        column, rank = places[name]
        return column * (_WIDTH + _GAP), rank * (_HEIGHT + _GAP)

    for part in outline.parts:
        x, y = corner(part.name)
        for name in part.inputs:
            if name in places:
                from_x, from_y = corner(name)
                axis.annotate(
                    "",
                    (x + _WIDTH / 2, y),
                    (from_x + _WIDTH / 2, from_y + _HEIGHT),
                    arrowprops={"arrowstyle": "-|>", "color": _LINE, "lw": 0.9, "shrinkA": 0, "shrinkB": 1},
                    zorder=1,
                )
    for part in outline.parts:
        x, y = corner(part.name)
        colour = colours[part.parameters[0]] if part.parameters else _PLAIN
        style: dict[str, Any] = {"boxstyle": "round,pad=0,rounding_size=0.07", "facecolor": colour, "edgecolor": "#7b8794", "lw": 0.7}
        axis.add_patch(FancyBboxPatch((x, y), _WIDTH, _HEIGHT, zorder=2, **style))
        axis.text(x + 0.08, y + 0.2, _cut(part.name, 34), va="center", color="black", fontweight="bold", zorder=3)
        told = f"{part.kind}  {part.size}" if part.size else part.kind
        axis.text(x + 0.08, y + 0.41, _cut(told, 40), va="center", color=_INK, fontsize=6.5, zorder=3)


def _services(axis: Any, outline: Outline, x: float, colours: dict[str, str]) -> None:
    if not outline.held:
        axis.text(x, 0.1, "one process: no services", color=_INK)
        return
    most = max((held.values for held in outline.held), default=0) or 1
    tables = {variable.name: variable for variable in outline.variables if variable.kind == "table"}
    for number, held in enumerate(outline.held):
        y = 0.1 + number * _SERVICE
        axis.text(x, y, f"service {held.name}", color=_INK, fontweight="bold", va="center")
        axis.text(x + _BAR, y, _holding(held), color=_INK, fontsize=6.5, ha="right", va="center")
        left = x
        for name, start, stop in held.blocks:
            width = _BAR * (stop - start) / most
            axis.barh(y + 0.22, width, 0.2, left=left, color=colours.get(name, _EMPTY), edgecolor="white", lw=0.4)
            left += width
        # A table's part is a thin line: how many rows it will have, nobody knows before.
        for place, name in enumerate(held.tables):
            share = _BAR / len(tables)
            axis.barh(y + 0.38, share, 0.07, left=x + place * share, color=colours.get(name, _EMPTY), lw=0)


def _holding(held: Held) -> str:
    told = [f"{held.values:,} values"] if held.blocks else []
    if held.tables:
        told.append(f"rows of {len(held.tables)} table{'s' if len(held.tables) > 1 else ''}")
    return ", ".join(told) or "nothing"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
