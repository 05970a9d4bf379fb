"""The drawing of `umiak show` as SVG, for the page: without matplotlib and without torch. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from umiak.show.picture import (
    _BAR,
    _EMPTY,
    _GAP,
    _HEIGHT,
    _INDENT,
    _INK,
    _LINE,
    _PLAIN,
    _SERVICE,
    _WIDTH,
    _colours,
    _cut,
    _flow,
    _holding,
    _tree,
)
from umiak.spec.outline import Outline

UNIT = 92.0
"""Pixels for what is 1 in the picture."""
MOST_PARTS = 400
NAME, TOLD = 26, 34
"""Letters that fit into a box."""
_STYLE = (
    f"text{{font:11px system-ui,sans-serif;fill:{_INK}}}.name{{font-weight:600;fill:#000}}.told{{font-size:9.5px}}"
    ".title{font-size:15px;font-weight:600}"
)
Place = tuple[float, float]


def draw(outline: Outline) -> str:
    shown = outline.parts[:MOST_PARTS]
    places = _flow(shown) if outline.flows else _tree(shown)
    wide = max((x for x, _ in places.values()), default=0.0) + _WIDTH + _GAP
    high = max(max((y for _, y in places.values()), default=0.0) + _HEIGHT + _GAP, len(outline.held) * _SERVICE + 0.8)
    width, height = (wide + _BAR + 1.0) * UNIT, (high + 0.7) * UNIT
    body = "".join(
        [
            _text(0.0, -0.3, outline.title, "title"),
            *_parts(outline, places),
            *_services(outline, wide + 0.5),
        ]
    )
    left = len(outline.parts) - len(shown)
    body += _text(0.0, high - 0.1, f"and {left} more parts", "told") if left else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-0.2 * UNIT:.0f} {-0.6 * UNIT:.0f} {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label={quoteattr(f"model of {outline.title}")}>'
        f"<style>{_STYLE}</style>{body}</svg>"
    )


def _text(x: float, y: float, text: str, kind: str, end: bool = False) -> str:
    anchor = ' text-anchor="end"' if end else ""
    return f'<text x="{x * UNIT:.1f}" y="{y * UNIT:.1f}" class="{kind}"{anchor}>{escape(_plain(text))}</text>'


def _plain(text: str) -> str:
    """Without letters that XML does not have."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _box(x: float, y: float, width: float, height: float, fill: str, more: str = "") -> str:
    return (
        f'<rect x="{x * UNIT:.1f}" y="{y * UNIT:.1f}" width="{width * UNIT:.1f}" height="{height * UNIT:.1f}" '
        f'fill="{fill}"{more}/>'
    )


def _parts(outline: Outline, places: dict[str, Place]) -> Iterator[str]:
    colours = _colours(outline)
    for part in outline.parts:
        if part.name in places:
            for name in part.inputs:
                if name in places:
                    yield _line(places[name], places[part.name], outline.flows)
    for part in outline.parts:
        if part.name not in places:
            continue
        x, y = places[part.name]
        colour = colours[part.parameters[0]] if part.parameters else _PLAIN
        yield _box(x, y, _WIDTH, _HEIGHT, colour, ' rx="5" stroke="#7b8794" stroke-width="0.8"')
        yield _text(x + 0.08, y + 0.23, _cut(part.name, NAME), "name")
        values = outline.values_of(part)
        told = ", ".join(filter(None, (part.size, part.kind) if outline.flows else (part.kind, part.size)))
        room = TOLD - (len(f"{values:,}") + 2 if values else 0)
        yield _text(x + 0.08, y + 0.45, _cut(told, room), "told")
        if values:
            yield _text(x + _WIDTH - 0.08, y + 0.45, f"{values:,}", "told", end=True)


def _line(start: Place, end: Place, flows: bool) -> str:
    if flows:
        top, bottom = (start[0] + _WIDTH / 2, start[1] + _HEIGHT), (end[0] + _WIDTH / 2, end[1])
        fall = (bottom[1] - top[1]) / 2
        bend = _point(top[0], top[1] + fall), _point(bottom[0], bottom[1] - fall)
        path = f"M{_point(*top)}C{bend[0]} {bend[1]} {_point(*bottom)}"
    else:
        x, y = start[0] + _INDENT / 2, start[1] + _HEIGHT
        path = f"M{x * UNIT:.1f} {y * UNIT:.1f}V{(end[1] + _HEIGHT / 2) * UNIT:.1f}H{end[0] * UNIT:.1f}"
    return f'<path d="{path}" fill="none" stroke="{_LINE}"/>'


def _point(x: float, y: float) -> str:
    return f"{x * UNIT:.1f} {y * UNIT:.1f}"


def _services(outline: Outline, x: float) -> Iterator[str]:
    if not outline.held:
        yield _text(x, 0.1, "one process: no services", "told")
        return
    colours = _colours(outline)
    most = max((held.values for held in outline.held), default=0) or 1
    tables = [variable.name for variable in outline.variables if variable.kind == "table"]
    for number, held in enumerate(outline.held):
        y = 0.1 + number * _SERVICE
        yield _text(x, y + 0.04, f"service {held.name}", "name")
        yield _text(x + _BAR, y + 0.04, _holding(held), "told", end=True)
        yield _box(x, y + 0.12, _BAR, 0.2, "none", f' stroke="{_EMPTY}"')
        left = x
        for name, start, stop in held.blocks:
            width = _BAR * (stop - start) / most
            yield _box(left, y + 0.12, width, 0.2, colours.get(name, _EMPTY), ' stroke="#fff" stroke-width="0.4"')
            left += width
        for place, name in enumerate(held.tables):
            share = _BAR / max(1, len(tables))
            yield _box(x + place * share, y + 0.345, share, 0.07, colours.get(name, _EMPTY))
