"""One thing in AWS that belongs to a cluster, as the inventory lists it, and the meter by which it is billed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal


@dataclass(frozen=True)
class Meter:
    since: datetime
    quantity: Decimal = Decimal(1)
    unit: str = ""
    # A disk's.
    type: str = ""
    # An instance's.
    spot: bool = False
    zone: str = ""


@dataclass(frozen=True)
class Thing:
    kind: str
    name: str
    billed: bool = True
    # What it is in or about, where that helps to find it; an instance's type.
    detail: str = ""
    # Kept by an earlier cluster with the same name.
    earlier: bool = False
    # Where it is known. It does not tell things apart: a size may change from one look to the next.
    meter: Meter | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" ({self.detail})" if self.detail else "")
