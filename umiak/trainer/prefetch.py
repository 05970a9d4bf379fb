"""The next batch is prepared, in a thread of its own, while the current one computes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
DEPTH = 2
_END = object()


class Prefetch(Generic[T]):
    """Iterates over `items` a few steps ahead. Errors of the iterator are raised where its item would have come."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self._queue: queue.Queue[object] = queue.Queue(DEPTH)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="prefetch", daemon=True)
        self._thread.start()

    def next(self) -> T | None:
        """The next item; None after the last."""
        item = self._queue.get()
        if item is _END or isinstance(item, BaseException):
            self._queue.put(item)
        if item is _END:
            return None
        if isinstance(item, BaseException):
            raise item
        return item  # type: ignore[return-value]

    def close(self) -> None:
        self._closed.set()
        while not self._queue.empty():
            self._queue.get_nowait()
        self._thread.join()

    def _run(self) -> None:
        try:
            for item in self._items:
                self._put(item)
                if self._closed.is_set():
                    return
            self._put(_END)
        except BaseException as error:
            self._put(error)

    def _put(self, item: object) -> None:
        while not self._closed.is_set():
            try:
                self._queue.put(item, timeout=0.2)
                return
            except queue.Full:
                continue
