"""Values of events, which strangers may have written, as numbers that JSON has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime

MOST_COUNT = 1e15
"""No count of rounds, samples, bytes or workers is larger."""


def seconds(text: object) -> float:
    """A time as the contract writes it, in seconds since 1970; not a number where there is none."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except (ValueError, OverflowError):
        return math.nan


def number(value: object) -> float | None:
    """A finite number, or None: JSON has no others."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def finite(value: object) -> float:
    """A finite number; anything else is a ValueError or a TypeError."""
    found = float(value)  # type: ignore[arg-type]
    if not math.isfinite(found):
        raise ValueError(f"{value!r} is not a number")
    return found


def count(value: object) -> int:
    """How many of something, or the number of it; anything else is an error."""
    if not 0 <= finite(value) < MOST_COUNT:
        raise ValueError(f"{value!r} is no count")
    return int(value)  # type: ignore[call-overload]


def numbers(values: object) -> dict[str, float | None]:
    return {str(name): number(value) for name, value in values.items()} if isinstance(values, Mapping) else {}
