"""What a run has cost so far, from a price per hour: one that is given, or one that lies beside the run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from umiak.page.answers import Cost
from umiak.page.values import number

FILE = "price.json"
"""In a run directory: `{"dollars_per_hour": 1.5, "text": "3 workers on m5.large, on demand"}`. `umiak output pull` writes it."""
LEFT_OUT = (
    "Not counted: the cluster's control plane, disks, storage, traffic, and what other jobs use of the same machines."
)


@dataclass(frozen=True)
class Price:
    per_hour: float
    text: str


def given(per_hour: float) -> Price:
    return Price(per_hour, f"${per_hour:,.2f} an hour, as --dollars-per-hour says.")


def beside(about: Mapping[str, Any]) -> Price | None:
    """The price that lies in a run directory, if there is one that makes sense."""
    per_hour = number(about.get("dollars_per_hour"))
    if per_hour is None or not 0 <= per_hour < 1e6:
        return None
    text = str(about.get("text") or f"${per_hour:,.2f} an hour, as {FILE} says.")
    return Price(per_hour, text)


def cost(price: Price, seconds: float, lost: float, until_pass: float | None, samples: int | None) -> Cost:
    """Of a run that has worked for so many seconds, of which `lost` were spent to get back to where it was before restarts.

    Its passes are over since `until_pass` seconds of work, and had so many samples.
    """
    dollars = price.per_hour * seconds / 3600
    passed = price.per_hour * until_pass / 3600 if until_pass is not None else None
    return {
        "dollars": dollars,
        "perHour": price.per_hour,
        "perMillionSamples": passed / samples * 1e6 if passed is not None and samples else None,
        "lostToRestarts": price.per_hour * min(lost, seconds) / 3600,
        "text": f"{price.text} Counted: the time in which the run was at work. {LEFT_OUT}",
    }
