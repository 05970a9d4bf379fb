"""Draws what `umiak show` tells: the parts of a model from input to output, and beside them what each service holds.

A part that trains something has a colour, and its parameters have the same one on the services.
"""

from __future__ import annotations

import colorsys
from collections import defaultdict
from pathlib import Path
from typing import Any

from umiak.extras import needed
from umiak.spec.outline import Held, Outline, Part

_INK, _LINE, _PLAIN, _EMPTY = "#333333", "#9aa5b1", "#f4f5f7", "#e9ecef"
_WIDTH, _HEIGHT, _GAP = 2.7, 0.56, 0.36
_INDENT, _TREE_GAP = 0.45, 0.1
_SERVICE, _BAR = 0.62, 4.4
_ACROSS, _BELOW = 37, 52


def draw(outline: Outline, png: Path) -> None:
    with needed("plot", "the picture of a model needs"):
        import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    places = _flow(outline.parts) if outline.flows else _tree(outline.parts)
    colours = _colours(outline)
    wide = max((x for x, _ in places.values()), default=0) + _WIDTH + _GAP
    high = max(max((y for _, y in places.values()), default=0) + _HEIGHT + _GAP, len(outline.held) * _SERVICE + 0.8)
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


def _tree(parts: tuple[Part, ...]) -> dict[str, tuple[float, float]]:
    """One below the other, indented by how deep they lie."""
    depth: dict[str, int] = {}
    for part in parts:
        depth[part.name] = 1 + max((depth.get(name, -1) for name in part.inputs), default=-1)
    return {name: (_INDENT * deep, (_HEIGHT + _TREE_GAP) * row) for row, (name, deep) in enumerate(depth.items())}


def _flow(parts: tuple[Part, ...]) -> dict[str, tuple[float, float]]:
    places = layout(parts)
    return {name: (column * (_WIDTH + _GAP), row * (_HEIGHT + _GAP)) for name, (column, row) in places.items()}


def layout(parts: tuple[Part, ...]) -> dict[str, tuple[float, int]]:
    """A column and a row for each part: below the middle of all it reads, inputs just above their first reader."""
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
    for rank in sorted(ranks):
        wanted = {name: _mean([column[i] for i in known[name].inputs if i in column]) for name in ranks[rank]}
        last = -1.0
        for name in sorted(wanted, key=lambda name: (wanted[name] is None, wanted[name] or 0.0)):
            below = wanted[name]
            column[name] = last = last + 1 if below is None else max(below, last + 1)
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


def _parts(axis: Any, outline: Outline, places: dict[str, tuple[float, float]], colours: dict[str, str]) -> None:
    from matplotlib.patches import FancyBboxPatch

    for part in outline.parts:
        x, y = places[part.name]
        for name in part.inputs:
            if name in places:
                _line(axis, places[name], (x, y), outline.flows)
        colour = colours[part.parameters[0]] if part.parameters else _PLAIN
        style: dict[str, Any] = {"boxstyle": "round,pad=0,rounding_size=0.07", "facecolor": colour, "lw": 0.7}
        axis.add_patch(FancyBboxPatch((x, y), _WIDTH, _HEIGHT, edgecolor="#7b8794", zorder=2, **style))
        axis.text(x + 0.08, y + 0.2, _cut(part.name, _ACROSS), va="center", color="black", fontweight="bold", zorder=3)
        values = outline.values_of(part)
        told = ", ".join(filter(None, (part.size, part.kind) if outline.flows else (part.kind, part.size)))
        room = _BELOW - (len(f"{values:,}") + 4 if values else 0)
        axis.text(x + 0.08, y + 0.41, _cut(told, room), va="center", color=_INK, fontsize=6.5, zorder=3)
        if values:
            right = {"ha": "right", "va": "center", "fontsize": 6.5, "style": "italic"}
            axis.text(x + _WIDTH - 0.08, y + 0.41, f"{values:,}", color=_INK, zorder=3, **right)


def _line(axis: Any, start: tuple[float, float], end: tuple[float, float], flows: bool) -> None:
    """An arrow from a part to its reader, past what lies between them; or the branch of a tree."""
    if not flows:
        x, y = start[0] + _INDENT / 2, start[1] + _HEIGHT
        axis.plot([x, x, end[0]], [y, end[1] + _HEIGHT / 2, end[1] + _HEIGHT / 2], color=_LINE, lw=0.8, zorder=1)
        return
    arrow = {"arrowstyle": "-|>", "color": _LINE, "lw": 0.9, "shrinkA": 0, "shrinkB": 1}
    if start[0] == end[0] and end[1] - start[1] > 1.5 * (_HEIGHT + _GAP):
        arrow["connectionstyle"] = f"arc3,rad={-0.9 / (end[1] - start[1]):.3f}"
        axis.annotate(
            "",
            (end[0] + _WIDTH, end[1] + 0.5 * _HEIGHT),
            (start[0] + _WIDTH, start[1] + 0.5 * _HEIGHT),
            arrowprops=arrow,
            zorder=1,
        )
        return
    axis.annotate(
        "", (end[0] + _WIDTH / 2, end[1]), (start[0] + _WIDTH / 2, start[1] + _HEIGHT), arrowprops=arrow, zorder=1
    )


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
        axis.barh(y + 0.22, _BAR, 0.2, left=x, color="none", edgecolor=_EMPTY, lw=0.6)
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
    """The beginning and the end of a text that is too long: the end of a layer's name is what tells it from the others."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[len(text) - most + most // 2 + 1 :]}"
