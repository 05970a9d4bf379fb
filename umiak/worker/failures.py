"""What a failure is, and what should follow from it. Decides only; acting is the coordinator's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from umiak.errors import StorageError

REPEATS = 3
RETRY = 75


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

    def __str__(self) -> str:
        return f"{self.role} of worker {self.worker}: {self.message}"


def cause_of(failures: Sequence[Failure]) -> Failure | None:
    """The first that is not a mere consequence of another."""
    return next((failure for failure in failures if not failure.is_consequence), None)


class History:
    """The failures since the job last got on, and what must follow from the latest."""

    def __init__(self, max_restarts: int) -> None:
        self.max_restarts, self.restarts = max_restarts, 0
        self._failures: list[Failure] = []

    def committed(self, round_id: int) -> None:
        """A checkpoint past everything that failed is progress: what failed before it does not count any more."""
        if all(failure.round < round_id for failure in self._failures):
            self._failures, self.restarts = [], 0

    def add(self, cause: Failure) -> tuple[int, str] | None:
        """Exit code and message of a job that must end by this failure; None if it is tried again."""
        self._failures.append(cause)
        end = self._verdict(cause)
        self.restarts += end is None
        return end

    def _verdict(self, cause: Failure) -> tuple[int, str] | None:
        if cause.code == 2 or cause.is_storage:
            return cause.code, cause.message
        last = self._failures[-REPEATS:]
        if len(last) == REPEATS and len({failure.likeness for failure in last}) == 1 and cause.can_repeat:
            where = "at the same round" if cause.round >= 0 else "before its first round"
            return cause.exit_code, f"{cause}; it failed {REPEATS} times {where}"
        if self.restarts >= self.max_restarts:
            return cause.exit_code, f"{cause}; gave up after {self.restarts} restarts"
        return None
