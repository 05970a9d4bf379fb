"""Lines of a pod's standard output that mean something to a client, by the mark they begin with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

EVENT_MARK = "@umiak "
"""One event: a JSON object with its time."""
SERVER_MARK = "@server "
"""A line of server.log."""


def write_event(event: Mapping[str, Any], now: datetime | None = None) -> str:
    """An event as a line."""
    return EVENT_MARK + json.dumps({**event, "time": stamp(now or datetime.now(UTC))}) + "\n"


def read_event(line: str) -> dict[str, Any] | None:
    """The event that a line holds; None if it holds none, or something that this version does not understand."""
    if not line.startswith(EVENT_MARK):
        return None
    try:
        event = json.loads(line[len(EVENT_MARK) :])
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def stamp(when: datetime) -> str:
    """A time as the contract writes it: UTC, with milliseconds."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
