"""Work that depends on other work, each piece with its time: how CloudFormation makes, changes and removes resources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from botocore.exceptions import ClientError

from tests.fake_aws.clock import Clock

# CloudFormation tries again for a while when something else still hangs on what it deletes.
PATIENCE = 600.0
AGAIN = 30.0


class Failed(Exception):
    """A piece of work did not succeed; the text is what AWS said."""


class Blocked(Failed):
    """Something else is in the way, and may go away by itself."""


class Task(Protocol):
    def start(self) -> float:
        """Begin; how many seconds it takes. May raise Failed."""

    def finish(self) -> None:
        """The time is over. May raise Failed."""

    def fail(self, reason: str) -> None:
        """It has failed, or was cancelled because another has."""


class Graph:
    def __init__(
        self,
        clock: Clock,
        tasks: dict[str, Task],
        after: dict[str, set[str]],
        *,
        cancel: str,
        then: Callable[[list[str]], None],
    ) -> None:
        """`cancel`: what the others are told when one fails; empty: they go on as far as they can."""
        self.clock, self.tasks, self.cancel, self.then = clock, tasks, cancel, then
        self.waiting = {title: after.get(title, set()) & set(tasks) for title in tasks}
        self.running: set[str] = set()
        self.failed: list[str] = []
        self.over = False

    def begin(self) -> None:
        # The last in the file first among equals, so that a dependency that is missing from a template is not satisfied
        # by the luck of the order in the file.
        for title in reversed([title for title, after in self.waiting.items() if not after]):
            if title in self.waiting and not (self.failed and self.cancel):
                del self.waiting[title]
                self._start(title)
        if not self.running and not self.over:
            self.over = True
            self.then(self.failed)

    def abandon(self) -> None:
        """Somebody wants something else now; what has begun is left as it is."""
        self.over = True
        self.waiting.clear()
        self.running.clear()

    def _start(self, title: str) -> None:
        try:
            seconds = self.tasks[title].start()
        except Failed as error:
            self._fail(title, str(error))
            return
        self.running.add(title)
        self.clock.after(seconds, lambda: self._finish(title, self.clock.seconds + PATIENCE))

    def _finish(self, title: str, deadline: float) -> None:
        if self.over or title not in self.running:
            return
        try:
            self.tasks[title].finish()
        except Failed as error:
            if isinstance(error, Blocked) and self.clock.seconds < deadline:
                self.clock.after(AGAIN, lambda: self._finish(title, deadline))
                return
            self.running.discard(title)
            self._fail(title, str(error))
        else:
            self.running.discard(title)
            for after in self.waiting.values():
                after.discard(title)
        self.begin()

    def _fail(self, title: str, reason: str) -> None:
        self.failed.append(title)
        self.tasks[title].fail(reason)
        if self.cancel:
            self.waiting.clear()
            for other in sorted(self.running):
                self.tasks[other].fail(self.cancel)
            self.running.clear()


def failure(error: ClientError) -> Failed:
    """As CloudFormation tells it: what the service said."""
    blocked = error.response["Error"]["Code"] in ("DependencyViolation", "ResourceInUseException")
    return (Blocked if blocked else Failed)(str(error))
