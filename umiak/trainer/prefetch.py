"""The next batch is prepared ahead of its round: while the servers are waited for or, if that takes long, in a thread."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
DEPTH = 2
LONG_SECONDS = 0.005
"""A thread pays for items that take longer than this; for others, two threads that take turns cost more than they gain."""
_END = object()


class Prefetch(Generic[T]):
    """Iterates over `items` ahead of who wants them. Errors of the iterator are raised where its item would have come.

    Whoever waits for something else calls `ahead`, which makes the next item meanwhile.
    """

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self._ready: object | None = None
        self._took: deque[float] = deque(maxlen=4)
        self._thread: threading.Thread | None = None
        self._queue: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._room = threading.Semaphore(DEPTH)
        self._closed = False
        self._cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None

    def next(self) -> T | None:
        """The next item; None after the last."""
        self.ahead()
        if self._ready is None:
            self._ready = self._queue.get()
            self._room.release()
        item = self._ready
        if item is _END:
            return None
        if isinstance(item, BaseException):
            raise item
        self._ready = None
        return item  # type: ignore[return-value]

    def ahead(self) -> None:
        """Make the next item, unless it is there or the thread makes it."""
        if self._ready is not None or self._thread is not None:
            return
        began = time.perf_counter()
        try:
            self._ready = next(self._items, _END)
        except Exception as error:
            self._ready = error
        self._took.append(time.perf_counter() - began)
        if len(self._took) == self._took.maxlen and min(self._took) > LONG_SECONDS:
            self._thread = threading.Thread(target=self._run, name="prefetch", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._closed = True
        self._room.release()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        if self._cores:
            # The trainer may be pinned to a core by now (umiak.pserver.affinity), which a thread of its would inherit.
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, self._cores)
        item: object = None
        while item is not _END and not isinstance(item, BaseException):
            self._room.acquire()
            if self._closed:
                return
            try:
                item = next(self._items, _END)
            except BaseException as error:
                item = error
            self._queue.put(item)
