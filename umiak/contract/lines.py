"""Lines of a pod's standard output that mean something to a client, by the mark they begin with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from umiak.messages import events
from umiak.messages.events import Event, stamp

if TYPE_CHECKING:
    from umiak.contract.termination import Termination

EVENT_MARK = "@umiak "
"""One event: a JSON object with its time."""
SERVER_MARK = "@server "
"""A line of server.log."""


@dataclass(frozen=True)
class Told:
    """An event, and when it was told; the time is empty if the line does not say."""

    event: Event
    time: str
    written: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The whole object of its line, for programs that read more of it than this version does."""


def write_event(event: Event, now: datetime | None = None) -> str:
    """An event as a line."""
    return _line(events.encode(event), now)


def write_failure(termination: Termination, now: datetime | None = None) -> str:
    """The last event of a pod that fails: all of its termination message."""
    return _line({"event": "failed", **termination.to_json()}, now)


def _line(event: Mapping[str, Any], now: datetime | None) -> str:
    return EVENT_MARK + json.dumps({**event, "time": stamp(now or datetime.now(UTC))}) + "\n"


def read_event(line: str) -> Told | None:
    """The event that a line holds; None if it holds none, or something that this version does not understand."""
    if not line.startswith(EVENT_MARK):
        return None
    try:
        value = json.loads(line[len(EVENT_MARK) :])
        event = events.decode(value)
    except (ValueError, TypeError, AttributeError):
        return None
    return None if event is None else Told(event, str(value.get("time", "")), value)
