"""What a pod tells whoever looks at it from outside: lines of events on its standard output, and why it ended."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MARK = "@umiak "
CAUSE_CHARACTERS = 1000
LOG_CHARACTERS = 1500
MESSAGE_BYTES = 4000
"""Kubernetes cuts a termination message at 4096 bytes."""


@dataclass(frozen=True)
class Outcome:
    """How a pod ends. `failure` is what the job ended by, as the coordinator tells it; None if there is none to name."""

    code: int
    cause: str = ""
    failure: Mapping[str, Any] | None = None
    because_of: int | None = None
    """The worker whose fault it is, where no failure is known."""

    @classmethod
    def of(cls, note: Mapping[str, Any]) -> Outcome:
        """From the coordinator's last note."""
        return cls(note["code"], note["message"], note.get("cause"))


def emit(event: Mapping[str, Any]) -> None:
    """One event as a line of its own, written at once so that no other line gets into it."""
    line = (MARK + json.dumps({**event, "time": _time()}) + "\n").encode()
    with contextlib.suppress(OSError):
        while line:
            line = line[os.write(1, line) :]


def termination(outcome: Outcome, index: int) -> dict[str, Any]:
    """Why this pod ended: by its own fault or because of another."""
    failure = outcome.failure or {}
    culprit = failure.get("worker", outcome.because_of)
    message = {
        "cause": outcome.cause,
        "first": culprit is None or culprit == index,
        "worker": index,
        "role": failure.get("role", "pod"),
        "code": outcome.code,
        "time": _time(failure.get("time")),
        "round": failure.get("round", -1),
        "log": failure.get("log", ""),
    }
    if not message["first"]:
        message["because_of"] = culprit
    return message


def write_termination(path: Path, message: dict[str, Any]) -> None:
    """Write it where Kubernetes looks for it; of what is too long, the cause keeps its beginning and the log its end."""
    log, cause = message["log"][-LOG_CHARACTERS:], message["cause"][:CAUSE_CHARACTERS]
    while len(text := json.dumps({**message, "log": log, "cause": cause}, ensure_ascii=False).encode()) > MESSAGE_BYTES:
        # A character may take several bytes.
        log, cause = log[len(log) // 4 + 1 :], cause if log else cause[: len(cause) // 2]
    with contextlib.suppress(OSError):
        path.write_bytes(text + b"\n")


def _time(seconds: float | None = None) -> str:
    when = datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
