"""Values of events, which strangers may have written, as numbers that JSON has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime


def seconds(text: object) -> float:
    """A time as the contract writes it, in seconds since 1970; not a number where there is none."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return math.nan


def number(value: object) -> float | None:
    """A finite number, or None: JSON has no others."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def numbers(values: object) -> dict[str, float | None]:
    return {str(name): number(value) for name, value in values.items()} if isinstance(values, Mapping) else {}
