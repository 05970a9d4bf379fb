"""OUT/events.jsonl: everything that was told of a run, with its time, in the order it was told. Nothing is ever taken back.

metrics.jsonl forgets what a restart repeats; here the restart itself is seen. A thread of its own writes, because a volume
may hang and whoever tells must not. What cannot be written is left out: no training ends for it.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from datetime import UTC, datetime
from pathlib import Path

from umiak.messages import events
from umiak.messages.events import Alive, Event
from umiak.rundir import layout

CLOSE_SECONDS = 5.0
WAITING_LINES = 10_000
"""More than so many are not kept for a volume that hangs."""


class EventLog:
    def __init__(self, out: Path) -> None:
        self._path = out / layout.EVENTS
        self._lines: queue.Queue[bytes | None] = queue.Queue(WAITING_LINES)
        self._thread = threading.Thread(target=self._write, name="events", daemon=True)
        self._thread.start()

    def __call__(self, event: Event) -> None:
        if not isinstance(event, Alive):
            line = events.encode_line(event, datetime.now(UTC))
            with contextlib.suppress(queue.Full):
                self._lines.put_nowait(line)

    def close(self) -> None:
        """Wait for what is left to be written, but not for ever."""
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(None)
        self._thread.join(CLOSE_SECONDS)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            with contextlib.suppress(OSError), self._path.open("ab") as file:
                file.write(line)
