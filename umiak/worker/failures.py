"""What should follow from a failure. Decides only; acting is the coordinator's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from umiak.messages.failure import Failure

REPEATS = 3


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
        if cause.can_repeat and self._alike(cause) >= REPEATS:
            where = "at the same round" if cause.round >= 0 else "before its first round"
            return cause.exit_code, f"{cause}; it failed {REPEATS} times {where}"
        if self.restarts >= self.max_restarts:
            return cause.exit_code, f"{cause}; gave up after {self.restarts} restarts"
        return None

    def _alike(self, cause: Failure) -> int:
        """How often this failure has come: for a failed process, in all, since where every worker fails alike, chance decides
        whose failure is heard first; for a lost pod, in a row, since pods that go in turn are taken away by somebody else."""
        same = [failure.likeness == cause.likeness for failure in reversed(self._failures)]
        return sum(takewhile(bool, same)) if cause.role == "supervisor" else sum(same)
