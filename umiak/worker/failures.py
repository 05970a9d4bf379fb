"""What a failure is, and what should follow from it. Decides only; acting is the coordinator's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

REPEATS = 3
RETRY = 75


@dataclass(frozen=True)
class Failure:
    """Why a generation ended. `code` is the process's exit code, negative for a signal; `log` its last lines."""

    worker: int
    role: str
    code: int
    message: str
    round: int
    log: str = ""
    time: float = field(default_factory=time.time)

    @property
    def is_consequence(self) -> bool:
        """Whether it only tells that somebody else was lost."""
        return self.code == RETRY

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


def verdict(history: Sequence[Failure], restarts: int, max_restarts: int) -> tuple[int, str] | None:
    """Exit code and message of a job that must end by its last failure; None if it may be tried again."""
    cause = history[-1]
    if cause.code == 2:
        return 2, cause.message
    last = history[-REPEATS:]
    same = len(last) == REPEATS and len({(f.worker, f.role, f.code, f.round) for f in last}) == 1
    if same and not cause.is_consequence:
        return cause.exit_code, f"{cause}; it failed {REPEATS} times at the same round"
    if restarts >= max_restarts:
        return cause.exit_code, f"{cause}; gave up after {restarts} restarts"
    return None
