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
        message |= {"because_of": culprit, "log": ""}
    return message


def write_termination(path: Path, message: dict[str, Any]) -> None:
    """Write it where Kubernetes looks for it, the end of the log first to go if there is too much."""
    text = json.dumps(message)
    for name in ("log", "cause"):
        if (excess := len(text) - MESSAGE_BYTES) > 0:
            # A character of the text may take several in JSON: what is left is then shorter than it could be.
            kept = max(0, len(message[name]) - excess)
            value = message[name]
            message = {**message, name: value[len(value) - kept :] if name == "log" else value[:kept]}
            text = json.dumps(message)
    with contextlib.suppress(OSError):
        path.write_text(text + "\n")


def _time(seconds: float | None = None) -> str:
    when = datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
