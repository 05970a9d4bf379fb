"""What has taken too long: a round, or workers that do not come. Keeps the time and decides; acting is the coordinator's."""

from __future__ import annotations

import time
from collections.abc import Sequence

from umiak.messages.failure import RETRY, Failure
from umiak.worker.roster import Rules, WorkerState, listed

REMIND_SECONDS = 10.0
DUMP_SECONDS = 2.0


class Patience:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.gathering_since = self.progress = self._reminded = time.monotonic()
        self._dumped_at = 0.0

    def has_left(self, now: float) -> bool:
        """Whether a round may still come."""
        return now - self.progress < self.rules.wait_seconds

    def wants_stacks(self, now: float) -> bool:
        """Whether it is time for everybody to write down where it is."""
        if self.has_left(now):
            self._dumped_at = 0.0
        elif not self._dumped_at:
            self._dumped_at = now
            return True
        return False

    def stall(self, now: float, workers: Sequence[WorkerState]) -> Failure | None:
        """The failure of a job that has had no round for too long, and the time to write down where it is."""
        if not self._dumped_at or now - self._dumped_at <= DUMP_SECONDS:
            return None
        slowest = min(range(len(workers)), key=lambda index: workers[index].round)
        seconds = self.rules.wait_seconds
        message = f"no round for {seconds:.0f} s; train.log and server.log of all workers say what each was doing"
        return Failure(slowest, "trainer", RETRY, message, workers[slowest].round)

    def absence(self, now: float, workers: Sequence[WorkerState]) -> Failure | None:
        """The failure of workers that did not come, or did not get ready, in time."""
        seconds = self.rules.wait_seconds
        if now - self.gathering_since <= seconds:
            return None
        missing = [index for index, worker in enumerate(workers) if not worker.ready]
        absent = [index for index in missing if workers[index].peer is None]
        words = "did not come" if absent else "came, but did not get ready"
        message = f"worker {listed(absent or missing)} {words} within {seconds:.0f} s"
        return Failure((absent or missing)[0], "pod", RETRY, message, -1)

    def reminder(self, now: float, workers: Sequence[WorkerState]) -> str:
        """Who is being waited for, every now and then; empty if that need not be said."""
        absent = [index for index, worker in enumerate(workers) if worker.peer is None]
        waited = now - self.gathering_since
        if not absent or waited <= REMIND_SECONDS or now - self._reminded <= REMIND_SECONDS:
            return ""
        self._reminded = now
        return f"waiting for worker {listed(absent)}, {self.rules.wait_seconds - waited:.0f} s more"
