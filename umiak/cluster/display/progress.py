"""A stack's events as lines to read: what became of each resource, and how long it took. Decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from umiak.cluster.stacks import Event

# The end of a status → what a person would say.
_WORDS = {
    "CREATE_COMPLETE": "created",
    "UPDATE_COMPLETE": "changed",
    "DELETE_COMPLETE": "removed",
    "DELETE_SKIPPED": "kept",
    "CREATE_FAILED": "FAILED",
    "UPDATE_FAILED": "FAILED",
    "DELETE_FAILED": "not removed yet",
}


def took(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    return f"{seconds} s" if seconds < 60 else f"{seconds // 60} min {seconds % 60:02d} s"


class Progress:
    """Gets the events one by one. `total`: how many resources there will be, where that is known."""

    def __init__(self, say: Callable[[str], None], total: int | None = None) -> None:
        self.say, self.total = say, total
        self.done: set[str] = set()
        self.start: datetime | None = None

    def __call__(self, event: Event, began: datetime | None) -> None:
        self.start = self.start or event.time
        since = took(event.time - self.start)
        if event.of_stack:
            if "ROLLBACK_IN_PROGRESS" in event.status:
                self.say(f"{since:>12}  something failed; AWS removes what it created")
            return
        if event.status not in _WORDS:
            return
        self.done.add(event.title)
        count = f"{len(self.done):>3}/{self.total}" if self.total else f"{len(self.done):>3}"
        taken = f"  {took(event.time - began)}" if began and event.time > began else ""
        kind = event.kind.removeprefix("AWS::")
        reason = f": {event.reason}" if event.is_failure and event.reason else ""
        self.say(f"{since:>12}  {count}  {event.title:<22} {kind:<34} {_WORDS[event.status]}{taken}{reason}")
