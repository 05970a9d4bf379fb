"""What a failure is, as those who see it tell it to those who decide."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any

from umiak.contract import reasons
from umiak.errors import RetryError, StorageError
from umiak.messages.events import Failed

RETRY = RetryError.exit_code


@dataclass(frozen=True)
class Failure:
    """Why a generation ended. `code` is the process's exit code, negative for a signal; `log` its last lines; `kind` the class
    of its error."""

    worker: int
    role: str
    code: int
    message: str
    round: int
    log: str = ""
    kind: str = ""
    time: float = field(default_factory=time.time)

    @property
    def is_consequence(self) -> bool:
        """Whether it only tells that somebody else was lost."""
        return self.code == RETRY and not self.is_storage

    @property
    def is_storage(self) -> bool:
        """Whether a volume failed for longer than anybody is patient. A restart would read and write the same files."""
        return self.kind == StorageError.__name__

    @property
    def can_repeat(self) -> bool:
        """Whether the same again would show that it comes every time. Before a trainer's first round only its own error does:
        connections and processes that are lost then have no round in common."""
        return not self.is_consequence and (self.round >= 0 or self.code > 0)

    @property
    def likeness(self) -> tuple[int, str, int, int]:
        return self.worker, self.role, self.code, self.round

    @property
    def exit_code(self) -> int:
        """That of a job which ends by it."""
        return self.code if self.code > 0 else 1

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of(value: dict[str, Any]) -> Failure:
        return Failure(**value)

    def __str__(self) -> str:
        return f"{self.role} of worker {self.worker}: {self.message}"


def told(code: int, message: str, cause: Failure | None) -> Failed:
    """How a job ended, for events.jsonl. What ends without a cause, and may continue, was asked to stop."""
    if cause is None:
        return Failed(message, code, reason=reasons.STOPPED if code == RETRY else None)
    return Failed(message, code, cause.worker, cause.role, cause.kind or None, cause.log or None)
