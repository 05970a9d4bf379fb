"""The termination message: one JSON object that a failed pod leaves where Kubernetes keeps it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from umiak.contract import reasons
from umiak.messages.events import stamp

MOST_BYTES = 4000
"""Kubernetes cuts a termination message at 4096 bytes."""
CAUSE_CHARACTERS = 1000
LOG_CHARACTERS = 1500


@dataclass(frozen=True)
class Termination:
    cause: str
    """Why the job ended, in one line."""
    first: bool = True
    """Whether it was this pod's own fault, or its own order to end."""
    worker: int = -1
    role: str = ""
    code: int | None = None
    time: datetime | None = None
    round: int | None = None
    log: str = ""
    because_of: int | None = None
    """The worker whose fault it was, where `first` is false."""
    reason: str = ""
    """A code of reasons.py, or the class of an error."""

    def to_json(self) -> dict[str, Any]:
        """All of it, however long."""
        message: dict[str, Any] = {
            "cause": self.cause,
            "first": self.first,
            "worker": self.worker,
            "role": self.role,
            "code": self.code,
            "time": stamp(self.time) if self.time else None,
            "round": self.round,
            "log": self.log,
        }
        if not self.first:
            message["because_of"] = self.because_of
        # Clients of umiak 0.1 do not know it, and do without.
        if self.reason:
            message["reason"] = self.reason
        return message

    def encode(self) -> bytes:
        """As it is written. Of what is too long, the cause keeps its beginning and the log its end."""
        log, cause = self.log[-LOG_CHARACTERS:], self.cause[:CAUSE_CHARACTERS]
        while len(text := _text({**self.to_json(), "log": log, "cause": cause})) > MOST_BYTES:
            # A character may take several bytes.
            log, cause = log[len(log) // 4 + 1 :], cause if log else cause[: len(cause) // 2]
        return text + b"\n"

    @classmethod
    def decode(cls, text: str) -> Termination | None:
        """None if the pod never came to write one; then the text is the end of its log, or Kubernetes' own words."""
        try:
            given = json.loads(text)
            return cls(
                cause=str(given["cause"]),
                first=bool(given.get("first", True)),
                worker=given.get("worker", -1),
                role=str(given.get("role") or ""),
                code=given.get("code"),
                time=datetime.fromisoformat(given["time"]) if given.get("time") else None,
                round=given.get("round"),
                log=str(given.get("log") or ""),
                because_of=given.get("because_of"),
                reason=str(given.get("reason") or _reason_of_text(str(given["cause"]))),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


def _text(message: dict[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode()


def _reason_of_text(cause: str) -> str:
    """Images of umiak 0.1 write no reason: of theirs, the one that has advice of its own is known by its text."""
    return reasons.OUT_OF_MEMORY if "needed more memory than" in cause else ""
