"""Keeps the output directory for a coordinator, in a thread of its own: a volume that hangs holds up this thread alone.

Shows every now and then that the directory is in use, and notices when another has taken it.
"""

from __future__ import annotations

import copy
import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from umiak.errors import UmiakError
from umiak.rundir import generations
from umiak.rundir.lease import LOOK_SECONDS, Lease
from umiak.rundir.places import Places
from umiak.worker.attempt import checkpoint_name

T = TypeVar("T")
log = logging.getLogger("umiak.worker")


class Keeper:
    """A run directory (umiak/worker/attempt.py) that is leased first."""

    def __init__(self, take: Callable[[], Lease]) -> None:
        """`take` leases the directory; `leased` says how that went. Nothing else may be asked before, or without a lease."""
        self.leased: Future[Lease] = Future()
        self._lease: Lease
        self._error: Exception | None = None
        self._places: Places | None = None
        """What is to be written down."""
        self._tasks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._work, args=(take,), daemon=True).start()

    def take(self, generation: int) -> Future[None]:
        return self._ask(lambda: self._lease.advance(generation))

    def select(self, generation: int) -> Future[str | None]:
        def select() -> str | None:
            self._write_places()
            generations.check(self._lease.out, generation)
            return checkpoint_name(self._lease.out)

        return self._ask(select)

    def record(self, places: Places) -> None:
        self._places = copy.deepcopy(places)

    def finish(self) -> Future[None]:
        return self._ask(lambda: self._lease.write(done=True))

    def release(self, seconds: float) -> None:
        """Say that we leave, if the volume takes it in time."""
        try:
            self._ask(lambda: self._lease.write(released=True)).result(seconds)
        except TimeoutError:
            log.warning("the volume does not answer: job.json does not say that this coordinator has left")
        except UmiakError as error:
            log.warning("%s", error)

    def check(self) -> None:
        """Raise what was found out about the directory since."""
        if self._error is not None:
            raise self._error

    def _ask(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()

        def answer() -> None:
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)

        self._tasks.put(answer)
        return future

    def _work(self, take: Callable[[], Lease]) -> None:
        try:
            self._lease = take()
        except Exception as error:
            self.leased.set_exception(error)
            return
        self.leased.set_result(self._lease)
        looked = time.monotonic()
        while True:
            try:
                self._tasks.get(timeout=max(0.0, looked + LOOK_SECONDS - time.monotonic()))()
                continue
            except queue.Empty:
                looked = time.monotonic()
            try:
                self._write_places()
                self._lease.look()
            except Exception as error:
                self._error = error

    def _write_places(self) -> None:
        places, self._places = self._places, None
        if places is not None and places != self._lease.entry.places:
            self._lease.write(places=places)
