"""What a pod tells whoever looks at it from outside: events on its standard output, and why it ended."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from umiak.contract import lines
from umiak.contract.termination import Termination
from umiak.messages.control import Finish
from umiak.messages.events import Event
from umiak.messages.failure import Failure


@dataclass(frozen=True)
class PodEnd:
    """How a pod ends. `failure` is what the job ended by, as the coordinator tells it; None if there is none to name."""

    code: int
    cause: str = ""
    failure: Failure | None = None
    because_of: int | None = None
    """The worker whose fault it is, where no failure is known."""

    @classmethod
    def of(cls, finish: Finish) -> PodEnd:
        """From the coordinator's last control message."""
        return cls(finish.code, finish.message, finish.cause)


def emit(event: Event) -> None:
    """One event as a line of its own, written at once so that no other line gets into it."""
    _write(lines.write_event(event))


def emit_failure(message: Termination) -> None:
    """The event of a pod that fails has all of its termination message."""
    _write(lines.write_failure(message))


def _write(text: str) -> None:
    line = text.encode()
    with contextlib.suppress(OSError):
        while line:
            line = line[os.write(1, line) :]


def termination(end: PodEnd, index: int) -> Termination:
    """Why this pod ended: by its own fault or because of another."""
    failure = end.failure
    culprit = failure.worker if failure else end.because_of
    first = culprit is None or culprit == index
    return Termination(
        cause=end.cause,
        first=first,
        worker=index,
        role=failure.role if failure else "pod",
        code=end.code,
        time=datetime.fromtimestamp(failure.time, UTC) if failure else datetime.now(UTC),
        round=failure.round if failure else -1,
        log=failure.log if failure else "",
        because_of=None if first else culprit,
        reason=failure.kind if failure else "",
    )


def write_termination(path: Path, message: Termination) -> None:
    """Write it where Kubernetes looks for it."""
    with contextlib.suppress(OSError):
        path.write_bytes(message.encode())
