"""The listening end of many connections: one thread, one selector, never blocked by a slow or hostile peer.

Greets every peer, refuses those that do not belong, hands complete frames to a handler and writes its answers as sockets
take them. What a frame means is the handler's business.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from umiak.errors import InputError, UmiakError, describe
from umiak.wire import credentials, hello
from umiak.wire.address import plain, tune, widen
from umiak.wire.frames import (
    HEADER,
    HELLO_LIMIT,
    MAX_BODY,
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
MAX_STRANGERS = 512
log = logging.getLogger("umiak.wire")


class Handler(Protocol):
    def admit(self, peer: Peer, member: Member) -> None:
        """Accept a member whose proof holds, or raise with the reason."""

    def frame(self, peer: Peer, frame: Frame) -> None:
        """One complete frame. An exception ends this peer's connection, after it has been told why."""

    def lost(self, peer: Peer, reason: str) -> None:
        """An admitted member's connection has ended."""


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
        self.shaken = not self.tls
        self.outgoing: list[memoryview] = []
        self.closing = False
        """Told why it must go: it is read no more, and closed once it has hung up or has had time to."""
        self._buffer = read_buffer(1 << 13)
        self._start = self._end = 0
        """What of the buffer was received and has not been given out; a frame begins there."""

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


class FrameServer:
    def __init__(
        self, listeners: Sequence[socket.socket], handler: Handler, token: bytes, tls: ssl.SSLContext | None
    ) -> None:
        self.handler, self.token, self.tls = handler, token, tls
        self.peers: set[Peer] = set()
        self._looked = 0.0
        self._selector = selectors.DefaultSelector()
        for index, sock in enumerate(listeners):
            self._selector.register(sock, selectors.EVENT_READ, index)

    def watch(self, fd: int, callback: Callable[[], None]) -> None:
        """Call back when another file descriptor is readable."""
        self._selector.register(fd, selectors.EVENT_READ, callback)

    def unwatch(self, fd: int) -> None:
        self._selector.unregister(fd)

    def poll(self, seconds: float | None = None) -> None:
        """Handle what is ready, waiting at most `seconds` for it."""
        for key, events in self._selector.select(seconds):
            if isinstance(key.data, int):
                self._accept(key.fileobj, key.data)  # type: ignore[arg-type]
            elif isinstance(key.data, Peer):
                self._serve(key.data, events)
            else:
                key.data()
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        for peer in [p for p in self.peers if (p.member is None or p.closing) and now - p.since > GREETING_SECONDS]:
            self.drop(peer, "told to go" if peer.closing else "no greeting in time")

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
        self.peers.discard(peer)
        self._selector.unregister(peer.sock)
        # A forked writer may hold a copy of the socket: closing this one alone would not reach the peer.
        with contextlib.suppress(OSError):
            peer.sock.shutdown(socket.SHUT_RDWR)
        peer.sock.close()
        if peer.member is not None:
            self.handler.lost(peer, reason)
        elif not peer.closing:
            log.warning("refused %s: %s", peer, reason)

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

    def _accept(self, listener: socket.socket, port: int) -> None:
        try:
            sock, address = listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            log.warning("cannot accept a connection: %s", error)
            time.sleep(0.1)  # the listener stays readable: without a pause this would be a busy loop
            return
        name = f"{address[0]}:{address[1]}" if isinstance(address, tuple) else "this machine"
        try:
            sock.setblocking(False)
            if sock.family == socket.AF_UNIX:
                widen(sock)
            else:
                tune(sock)
                if self.tls is not None:
                    sock = self.tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        except OSError as error:
            sock.close()
            log.warning("refused a stranger at %s: %s", name, plain(error))
            return
        peer = Peer(sock, name, port)
        strangers = [other for other in self.peers if other.member is None]
        if len(strangers) >= MAX_STRANGERS:
            self.drop(min(strangers, key=lambda other: other.since), "too many strangers at once")
        self.peers.add(peer)
        self._selector.register(sock, selectors.EVENT_READ, peer)
        if peer.shaken:
            self.send(peer, Kind.CHALLENGE, {"nonce": peer.nonce.hex()})

    def _serve(self, peer: Peer, events: int) -> None:
        """Whatever one peer sends, the others are served on: no exception leaves here."""
        if peer not in self.peers:
            return
        try:
            if not peer.shaken:
                self._shake(peer)
                return
            if events & selectors.EVENT_WRITE:
                self._flush(peer)
            if peer.closing and events & selectors.EVENT_READ:
                self._discard(peer)
            while peer in self.peers and not peer.closing and (frame := peer.read()) is not None:
                peer.heard = time.monotonic()
                if peer.member is None:
                    self._greet(peer, frame)
                else:
                    self.handler.frame(peer, frame)
                if not peer.read_ahead:
                    break
        except (OSError, FrameError) as error:
            self.drop(peer, plain(error) if isinstance(error, OSError) else str(error))
        except UmiakError as error:
            log.warning("refused %s: %s", peer, error)
            self.dismiss(peer, error)
        except Exception as error:
            log.exception("cannot handle what %s sent", peer)
            self.dismiss(peer, UmiakError(f"the server cannot handle what it was sent ({error!r}): its log says more"))

    def _shake(self, peer: Peer) -> None:
        try:
            peer.sock.do_handshake()  # type: ignore[attr-defined]
        except ssl.SSLWantReadError:
            self._selector.modify(peer.sock, selectors.EVENT_READ, peer)
            return
        except ssl.SSLWantWriteError:
            self._selector.modify(peer.sock, selectors.EVENT_WRITE, peer)
            return
        peer.shaken = True
        self._selector.modify(peer.sock, selectors.EVENT_READ, peer)
        self.send(peer, Kind.CHALLENGE, {"nonce": peer.nonce.hex()})

    def _greet(self, peer: Peer, frame: Frame) -> None:
        if frame.kind is not Kind.HELLO:
            raise FrameError(f"a {frame.kind.name} frame where a greeting was expected")
        head = frame.json()
        member = hello.check(head, self.token, peer.nonce)
        if isinstance(peer.sock, ssl.SSLSocket) and (worker := credentials.worker_of(peer.sock)) != member.index:
            raise InputError(f"{member} shows the certificate of worker {worker}: give each its own --tls directory")
        self.handler.admit(peer, member)
        peer.member, peer.limit, peer.pid = member, MAX_BODY, hello.process_id(str(head.get("process", "")))
        self.send(peer, Kind.WELCOME, {})

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
