"""Whether text and lines can be seen: the contrast of the style sheet's colours, by the formula of WCAG 2."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TOKENS = Path(__file__).parents[2] / "web" / "src" / "style" / "tokens.css"
TEXT = [
    *(("ink", each) for each in ("page", "card", "raised")),
    *(("ink-2", each) for each in ("page", "card", "raised", "accent-soft")),
    *(("ink-3", each) for each in ("page", "card", "raised")),
    ("accent", "card"), ("accent", "page"), ("accent", "accent-soft"), ("on-accent", "accent"),
    ("good", "good-soft"), ("warn", "warn-soft"), ("bad", "bad-soft"), ("run", "run-soft"), ("bad", "card"),
    ("on-c", "c0"), ("on-pale", "c1"), ("on-pale", "c2"), ("on-pale", "c3"),
]  # fmt: skip
LINES = [(f"c{number}", "card") for number in range(8)]


def colours(theme: str) -> dict[str, str]:
    light, dark = TOKENS.read_text().split('[data-theme="dark"]')
    found = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light))
    return {**found, **dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", dark))} if theme == "dark" else found


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, two: str) -> float:
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("pairs", "least"), [(TEXT, 4.5), (LINES, 3.0)], ids=["text", "lines"])
def test_text_and_lines_stand_out_from_what_is_behind_them(
    theme: str, pairs: list[tuple[str, str]], least: float
) -> None:
    known = colours(theme)
    pale = {pair: round(contrast(known[pair[0]], known[pair[1]]), 2) for pair in pairs}
    assert {pair: found for pair, found in pale.items() if found < least} == {}
