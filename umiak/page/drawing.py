"""The model of a run as a picture: an SVG from the outline that training left in run.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from umiak.show import svg
from umiak.spec.outline import Outline


def of_run(about: Mapping[str, Any]) -> str | None:
    """None where a run says nothing of its model, or nothing that can be drawn."""
    outline = about.get("outline")
    if not isinstance(outline, Mapping):
        return None
    try:
        return svg.draw(Outline.of(outline))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        return None
