"""Where a trainer's time goes between two reports: computing, waiting for others, transfer, waiting for data. They add up.

Measured on the trainer's main thread, so it must be cheap: `python -m tests.timings` prints what a round costs.
"""

from __future__ import annotations

from time import perf_counter as now

from umiak.messages.events import Work

SECONDS = 2.0
"""At most one report in so many seconds."""


class Timings:
    def __init__(self) -> None:
        self.restart()

    def restart(self, begun: float | None = None) -> None:
        """Forget what was measured: a new report begins now, or then."""
        self._begun = now() if begun is None else begun
        self._rounds = 0
        self._waiting = self._transfer = self._data = 0.0

    def exchanged(self, begun: float, sent: float, ahead: float, waited: float) -> None:
        """A round's exchange has just ended. It had `begun`, then all was `sent`, then the next batch was made, until `ahead`;
        the services `waited` so long for other trainers. A batch that was made while others were waited for took no time."""
        ended = now()
        waiting = min(waited, ended - sent)
        data = max(ahead - sent - waiting, 0.0)
        self._rounds += 1
        self._waiting += waiting
        self._data += data
        self._transfer += ended - begun - waiting - data

    def waited_for_data(self, since: float) -> None:
        self._data += now() - since

    def report(self, worker: int, round_id: int, sent: int, received: int) -> Work | None:
        """What to tell since the last report, if it is time; `sent` and `received` are bytes."""
        ended = now()
        seconds = ended - self._begun
        if seconds < SECONDS or not self._rounds:
            return None
        waiting, transfer, data, rounds = self._waiting, self._transfer, self._data, self._rounds
        self.restart(ended)
        computing = seconds - waiting - transfer - data
        return Work(worker, round_id, rounds, seconds, computing, waiting, transfer, data, sent, received)
