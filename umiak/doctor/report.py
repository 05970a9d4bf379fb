"""What `umiak doctor` found: one line per check, with advice for everything that is not as it should be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail", "none"]
BAD = 2
"""The exit code if something failed: the user has to change it, as with any other input."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. "none": it is not there, and only some verbs need it."""

    name: str
    status: Status
    found: str
    advice: str = ""

    def line(self) -> str:
        mark = "-" if self.status == "none" else self.status
        return f"{mark:<4}  {self.name:<10}  {self.found}" + (f": {self.advice}" if self.advice else "")


def exit_code(checks: Iterable[Check]) -> int:
    return BAD if any(check.status == "fail" for check in checks) else 0


def summary(checks: Iterable[Check]) -> str:
    counts = [sum(check.status == status for check in checks) for status in ("fail", "warn")]
    if not any(counts):
        return "this machine is ready"
    told = [f"{count} to {word}" for count, word in zip(counts, ("repair", "know"), strict=True) if count]
    return f"{' and '.join(told)}; the lines above say what to do"
