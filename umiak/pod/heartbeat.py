"""Keeps in touch with the coordinator while a pod is busy with something that cannot be interrupted by the clock."""

from __future__ import annotations

import _thread
import logging
import select
import threading
import time
from collections.abc import Callable
from types import TracebackType

from umiak.errors import UmiakError
from umiak.messages.control import NO_GENERATION, Busy, Finish, Waiting, encode_report
from umiak.wire.frames import Channel, Kind
from umiak.worker.link import Dismissed, arrived, order_of, pending
from umiak.worker.supervisor import BEAT_SECONDS

TICK_SECONDS = 0.2
log = logging.getLogger("umiak.worker")


class Heartbeat:
    """Beats in a thread as long as the block lasts. Interrupts the block (KeyboardInterrupt) if the job ends meanwhile."""

    def __init__(self, channel: Channel, state: Callable[[], tuple[str, int]]) -> None:
        """`state()` says what is being done, and how far it has got: a number that grows."""
        self.channel, self._state = channel, state
        self.finish: Finish | None = None
        self.dismissed: Dismissed | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        beat = 0.0
        try:
            while not self._ended.is_set():
                if time.monotonic() - beat > BEAT_SECONDS:
                    beat = time.monotonic()
                    phase, done = self._state()
                    self.channel.send(Kind.CONTROL, encode_report(Busy(phase, done), NO_GENERATION))
                if not pending(self.channel):
                    select.select([self.channel.sock], [], [], TICK_SECONDS)
                while (frame := arrived(self.channel)) is not None:
                    order = order_of(frame)
                    if isinstance(order, Finish):
                        self.finish = order
                        _thread.interrupt_main()
                        return
                    if isinstance(order, Waiting):
                        log.info("%s", order.text)
        except Dismissed as error:
            self.dismissed = error
            _thread.interrupt_main()
        except UmiakError as error:
            log.warning("%s; joining again once this is done", error)
