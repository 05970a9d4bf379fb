"""What a pod tells whoever looks at it from outside: events on its standard output, and why it ended."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from umiak.contract import lines
from umiak.contract.termination import Termination


@dataclass(frozen=True)
class PodEnd:
    """How a pod ends. `failure` is what the job ended by, as the coordinator tells it; None if there is none to name."""

    code: int
    cause: str = ""
    failure: Mapping[str, Any] | None = None
    because_of: int | None = None
    """The worker whose fault it is, where no failure is known."""

    @classmethod
    def of(cls, finish: Mapping[str, Any]) -> PodEnd:
        """From the coordinator's last control message."""
        return cls(finish["code"], finish["message"], finish.get("cause"))


def emit(event: Mapping[str, Any]) -> None:
    """One event as a line of its own, written at once so that no other line gets into it."""
    line = lines.write_event(event).encode()
    with contextlib.suppress(OSError):
        while line:
            line = line[os.write(1, line) :]


def termination(end: PodEnd, index: int) -> Termination:
    """Why this pod ended: by its own fault or because of another."""
    failure = end.failure or {}
    culprit = failure.get("worker", end.because_of)
    first = culprit is None or culprit == index
    when = failure.get("time")
    return Termination(
        cause=end.cause,
        first=first,
        worker=index,
        role=failure.get("role", "pod"),
        code=end.code,
        time=datetime.now(UTC) if when is None else datetime.fromtimestamp(when, UTC),
        round=failure.get("round", -1),
        log=failure.get("log", ""),
        because_of=None if first else culprit,
        reason=failure.get("kind", ""),
    )


def write_termination(path: Path, message: Termination) -> None:
    """Write it where Kubernetes looks for it."""
    with contextlib.suppress(OSError):
        path.write_bytes(message.encode())
