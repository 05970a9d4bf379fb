"""Waiting for AWS: ask, pause, ask again, with pauses that grow while nothing happens. Never for ever.

`sleep` and `now` stand here by name so that a test can put a clock of its own in their place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from umiak.errors import RetryError, UmiakError

# The first pause and the longest. What is done is known at most so much later, and AWS is asked 6 times a minute in the end.
SHORTEST, LONGEST, GROWTH = 4.0, 10.0, 1.5
# How long AWS may be out of reach or busy before we stop asking.
PATIENCE = 120.0


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def now() -> float:
    return time.monotonic()


def pauses(limit: float, what: str) -> Iterator[Callable[[], None]]:
    """Once for each look: yields a function that says something has happened, which makes the next pause shorter.

    Ends with an error when `limit` seconds are over.
    """
    began, pause = now(), SHORTEST
    while True:
        happened = False

        def moved() -> None:
            nonlocal happened
            happened = True

        yield moved
        pause = max(pause / 2, SHORTEST) if happened else min(pause * GROWTH, LONGEST)
        if now() - began + pause > limit:
            raise RetryError(
                f"{what} is not done after {limit / 60:.0f} minutes; run the same command again to continue"
            )
        sleep(pause)


class Patience:
    """Errors that may pass by themselves, borne for a while. `bear` raises one when that while is over."""

    def __init__(self, seconds: float = PATIENCE) -> None:
        self.seconds = seconds
        self._since: float | None = None

    def bear(self, error: UmiakError) -> None:
        self._since = now() if self._since is None else self._since
        if now() - self._since >= self.seconds:
            raise error

    def calm(self) -> None:
        self._since = None
