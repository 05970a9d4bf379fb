"""Connections of one selector: frames in, frames out, and an end with its reason. Never blocked by a slow or hostile peer.

Who a peer is and what its frames mean is for others: the door (door.py) has the strangers, the server (server.py) the members.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from umiak.errors import UmiakError, describe
from umiak.wire import hello
from umiak.wire.address import plain
from umiak.wire.frames import (
    HEADER,
    HELLO_LIMIT,
    Buffer,
    Frame,
    FrameError,
    Kind,
    advance,
    joined,
    pack,
    read_buffer,
    unpack_header,
)
from umiak.wire.hello import Member

GREETING_SECONDS = 10.0
LOOK_SECONDS = 0.5
"""How often to look for peers whose time is up."""
log = logging.getLogger("umiak.wire")


class Peer:
    """One connection as the server sees it. `member` is None until it has proved who it is."""

    def __init__(self, sock: socket.socket, name: str, port: int) -> None:
        self.sock, self.name, self.port = sock, name, port
        self.tls = isinstance(sock, ssl.SSLSocket)
        self.member: Member | None = None
        self.pid = 0
        """The process at the other end; 0 if it cannot be told, as on another machine."""
        self.nonce = hello.challenge()
        self.limit = HELLO_LIMIT
        self.since = time.monotonic()
        self.heard = self.since
        self.outgoing: list[memoryview] = []
        self.closing = False
        """Told why it must go: it is read no more, and closed once it has hung up or has had time to."""
        self._buffer = read_buffer(1 << 13)
        self._start = self._end = 0
        """What of the buffer was received and has not been given out; a frame begins there."""

    def secure(self, context: ssl.SSLContext) -> None:
        """From here on everything is TLS, beginning with a handshake."""
        self.sock = context.wrap_socket(self.sock, server_side=True, do_handshake_on_connect=False)
        self.tls = True

    def read(self) -> Frame | None:
        """The next complete frame, or None when the socket has no more bytes for now."""
        if self._start:
            # The frame that was given out is done with; what came behind it moves to the front, where it is aligned.
            held = self._end - self._start
            if held:
                self._buffer[:held] = self._buffer[self._start : self._end].copy()
            self._start, self._end = 0, held
        view = self._buffer.data
        while True:
            need = HEADER.size
            if self._end >= need:
                kind, head, body = unpack_header(view, self.limit)
                need += head + body
                if self._end >= need:
                    self._start = need
                    first = HEADER.size + head
                    return Frame(kind, view[HEADER.size : first], self._buffer[first:need])
                if len(self._buffer) < need:
                    longer = read_buffer(need)
                    longer[: self._end] = self._buffer[: self._end]
                    self._buffer, view = longer, longer.data
            try:
                count = self.sock.recv_into(view[self._end :])
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return None
            if not count:
                middle = " in the middle of a frame" if self._end else ""
                raise ConnectionResetError(f"the connection was closed{middle}")
            self._end += count

    @property
    def read_ahead(self) -> bool:
        """Whether bytes were taken from the socket that no frame was made of yet: it will not announce them again."""
        return self._end > self._start or (self.tls and self.sock.pending() > 0)  # type: ignore[attr-defined]

    def write(self) -> bool:
        """Send what the socket takes; True when nothing is left."""
        try:
            while self.outgoing:
                sent = self.sock.send(self.outgoing[0]) if self.tls else self.sock.sendmsg(self.outgoing[:64])
                advance(self.outgoing, sent)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        return True

    def __str__(self) -> str:
        return f"{self.member or 'a stranger'} at {self.name}"


class Connections(ABC):
    """Peers and their selector. What becomes of a refusal and an end is for the class that inherits this.

    `received` takes each complete frame. If it raises, that ends the peer's connection, after it has been told why.
    """

    def __init__(self, received: Callable[[Peer, Frame], None]) -> None:
        self._received = received
        self.peers: dict[Peer, None] = {}
        self._selector = selectors.DefaultSelector()
        self._looked = 0.0

    @abstractmethod
    def _refused(self, peer: Peer, reason: str, defect: Exception | None = None) -> None:
        """A peer is about to be told why it must go."""

    @abstractmethod
    def _gone(self, peer: Peer, reason: str) -> None:
        """A connection has ended."""

    def _is_late(self, peer: Peer) -> bool:
        """Whether a peer must be gone once GREETING_SECONDS have passed."""
        return peer.closing

    def send(self, peer: Peer, kind: Kind, head: bytes | dict[str, Any] = b"", parts: Sequence[Buffer] = ()) -> None:
        """Queue a frame. Its parts must not change until the peer has answered."""
        if peer not in self.peers:
            return
        views = pack(kind, head, parts)
        peer.outgoing += joined(views) if peer.tls else views
        self._flush(peer)

    def drop(self, peer: Peer, reason: str) -> None:
        if peer not in self.peers:
            return
        self._release(peer)
        # A forked writer may hold a copy of the socket: closing this one alone would not reach the peer.
        with contextlib.suppress(OSError):
            peer.sock.shutdown(socket.SHUT_RDWR)
        peer.sock.close()
        self._gone(peer, reason)

    def dismiss(self, peer: Peer, error: UmiakError) -> None:
        """Tell a peer why it must go. What it still sends is thrown away, so that the reason is not lost on the way."""
        if peer.closing:
            return
        kind = Kind.REFUSED if peer.member is None else Kind.ERROR
        peer.closing, peer.since = True, time.monotonic()
        self.send(peer, kind, describe(error))

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()
        self.peers.clear()

    def _keep(self, peer: Peer) -> None:
        self.peers[peer] = None
        self._selector.register(peer.sock, selectors.EVENT_READ, peer)

    def _release(self, peer: Peer) -> None:
        del self.peers[peer]
        self._selector.unregister(peer.sock)

    @property
    def _is_time(self) -> bool:
        return time.monotonic() - self._looked >= LOOK_SECONDS

    def _look(self) -> None:
        """Every now and then: end what should have ended by itself."""
        self._looked = now = time.monotonic()
        for peer in [p for p in self.peers if self._is_late(p) and now - p.since > GREETING_SECONDS]:
            self.drop(peer, "told to go" if peer.closing else "no greeting in time")

    def _serve(self, peer: Peer, events: int) -> None:
        """Whatever one peer sends, the others are served on: no exception leaves here."""
        if peer not in self.peers:
            return
        try:
            if events & selectors.EVENT_WRITE:
                self._flush(peer)
            if peer.closing and events & selectors.EVENT_READ:
                self._discard(peer)
            while peer in self.peers and not peer.closing and (frame := peer.read()) is not None:
                peer.heard = time.monotonic()
                self._received(peer, frame)
                if not peer.read_ahead:
                    break
        except Exception as error:
            self._end(peer, error)

    def _end(self, peer: Peer, error: Exception) -> None:
        """Something went wrong with a peer: end its connection, and say why where it can still be told."""
        if isinstance(error, OSError):
            self.drop(peer, plain(error))
        elif isinstance(error, FrameError):
            self.drop(peer, str(error))
        elif isinstance(error, UmiakError):
            self._refused(peer, str(error))
            self.dismiss(peer, error)
        else:
            self._refused(peer, f"cannot handle what it sent ({error!r})", error)
            self.dismiss(peer, UmiakError(f"the server cannot handle what it was sent ({error!r}): see its log"))

    def _discard(self, peer: Peer) -> None:
        with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not peer.sock.recv(1 << 16):
                self.drop(peer, "hung up")

    def _flush(self, peer: Peer) -> None:
        try:
            empty = peer.write()
        except OSError as error:
            self.drop(peer, plain(error))
            return
        if empty and peer.closing:
            with contextlib.suppress(OSError):
                peer.sock.shutdown(socket.SHUT_WR)
        wanted = selectors.EVENT_READ if empty else selectors.EVENT_READ | selectors.EVENT_WRITE
        if self._selector.get_key(peer.sock).events != wanted:
            self._selector.modify(peer.sock, wanted, peer)
