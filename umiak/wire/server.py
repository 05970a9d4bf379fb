"""The listening end of many connections: one thread serves the members, one selector, never blocked by a slow or hostile peer.

Hands complete frames to a handler and writes its answers as sockets take them. What a frame means is the handler's business;
who gets in at all is that of the door.
"""

from __future__ import annotations

import logging
import selectors
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from umiak.wire.connections import Connections, Peer
from umiak.wire.door import Door
from umiak.wire.frames import MAX_BODY, Frame, Kind
from umiak.wire.hello import Member

__all__ = ["FrameServer", "Handler", "Peer"]

log = logging.getLogger("umiak.wire")


class Handler(Protocol):
    def admit(self, peer: Peer, member: Member) -> dict[str, Any] | None:
        """Accept a member whose proof holds, or raise with the reason. What is returned goes out with the WELCOME."""

    def frame(self, peer: Peer, frame: Frame) -> None:
        """One complete frame. An exception ends this peer's connection, after it has been told why."""

    def lost(self, peer: Peer, reason: str) -> None:
        """An admitted member's connection has ended."""


class FrameServer(Connections):
    def __init__(
        self, listeners: Sequence[socket.socket], handler: Handler, token: bytes, tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(handler.frame)
        self.handler = handler
        self._door = Door(listeners, token, tls, self._welcome)
        self._selector.register(self._door.fileno, selectors.EVENT_READ, self._door)

    def watch(self, fd: int, callback: Callable[[], None]) -> None:
        """Call back when another file descriptor is readable."""
        self._selector.register(fd, selectors.EVENT_READ, callback)

    def unwatch(self, fd: int) -> None:
        self._selector.unregister(fd)

    def poll(self, seconds: float | None = None) -> None:
        """Handle what is ready, waiting at most `seconds` for it: first that of members, then the door."""
        knocked = False
        for key, events in self._selector.select(seconds):
            if isinstance(key.data, Peer):
                self._serve(key.data, events)
            elif key.data is self._door:
                knocked = True
            else:
                key.data()
        if self._is_time:
            self._look()
            knocked = True
        if knocked:
            self._door.attend()

    def close(self) -> None:
        self._door.close()
        super().close()

    def _welcome(self, peer: Peer, member: Member, pid: int) -> None:
        """Take over from the door who has proved to be a member."""
        self._keep(peer)
        try:
            told = self.handler.admit(peer, member)
        except Exception as error:
            self._end(peer, error)
            return
        peer.member, peer.limit, peer.pid = member, MAX_BODY, pid
        self.send(peer, Kind.WELCOME, told or {})
        if peer.read_ahead:
            self._serve(peer, selectors.EVENT_READ)

    def _refused(self, peer: Peer, reason: str, defect: Exception | None = None) -> None:
        log.log(logging.ERROR if defect else logging.WARNING, "refused %s: %s", peer, reason, exc_info=defect)

    def _gone(self, peer: Peer, reason: str) -> None:
        if peer.member is not None:
            self.handler.lost(peer, reason)
