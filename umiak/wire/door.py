"""The door of a server: everybody is a stranger there until they have proved who they are.

Accepts, has them knock (knock.py), makes TLS, greets and refuses; members are handed over. Strangers may come as often as they
like, so each of them costs little, their number is bounded, and so are the lines about them in the log.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import ssl
import time
from collections.abc import Callable, Sequence

from umiak.errors import InputError
from umiak.wire import credentials, hello, knock
from umiak.wire.address import plain, tune, widen
from umiak.wire.connections import Connections, Peer
from umiak.wire.frames import Frame, FrameError, Kind
from umiak.wire.hello import Member

MAX_STRANGERS = 512
TOLD_STRANGERS = 10
TELLING_SECONDS = 60.0
"""Of strangers, so many have a line of their own in so much time; the others have one together."""
PAUSE_SECONDS = 0.1
log = logging.getLogger("umiak.wire")

Arrived = Callable[[Peer, Member, int], None]
"""Takes over a peer that has proved to be a member, and the id of its process."""


class Door(Connections):
    def __init__(
        self, listeners: Sequence[socket.socket], token: bytes, tls: ssl.SSLContext | None, arrived: Arrived
    ) -> None:
        super().__init__(self._greet)
        self._token, self._tls, self._arrived = token, tls, arrived
        self._knocks: dict[Peer, bytes] = {}
        """Those who have to knock, and what they have answered so far."""
        self._shaking: set[Peer] = set()
        """Those with whom TLS is being made."""
        self._told = Told()
        for index, sock in enumerate(listeners):
            self._selector.register(sock, selectors.EVENT_READ, index)

    @property
    def fileno(self) -> int:
        """Readable when somebody is at the door."""
        return self._selector.fileno()

    def attend(self) -> None:
        """See to everybody who is at the door; does not wait."""
        for key, events in self._selector.select(0):
            if isinstance(key.data, int):
                self._accept(key.fileobj, key.data)  # type: ignore[arg-type]
            elif key.data in self._knocks:
                self._open(key.data, self._hear)
            elif key.data in self._shaking:
                self._open(key.data, self._shake)
            else:
                self._serve(key.data, events)
        if self._is_time:
            self._look()
            self._told.look()

    def close(self) -> None:
        self._told.look(at_once=True)
        super().close()

    def _accept(self, listener: socket.socket, port: int) -> None:
        try:
            sock, address = listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            self._told.say("cannot accept a connection: %s", error)
            time.sleep(PAUSE_SECONDS)  # the listener stays readable: without a pause this would be a busy loop
            return
        sock.setblocking(False)
        local = sock.family == socket.AF_UNIX
        peer = Peer(sock, "this machine" if local else f"{address[0]}:{address[1]}", port)
        if len(self.peers) >= MAX_STRANGERS:
            self.drop(next(iter(self.peers)), "too many unknown connections at once")
        self._keep(peer)
        if self._tls is not None and not local:
            self._knocks[peer] = b""
            self._open(peer, lambda peer: peer.sock.sendall(knock.MAGIC + peer.nonce))
        else:
            self._open(peer, self._challenge)

    def _open(self, peer: Peer, step: Callable[[Peer], None]) -> None:
        """Take a step with a stranger, who is gone if it fails."""
        try:
            step(peer)
        except OSError as error:
            self.drop(peer, plain(error))

    def _hear(self, peer: Peer) -> None:
        """Hear a knock, and not a byte of what follows."""
        with contextlib.suppress(BlockingIOError):
            more = peer.sock.recv(knock.PROOF_BYTES - len(self._knocks[peer]))
            if not more:
                raise ConnectionResetError("the connection was closed")
            self._knocks[peer] += more
        if len(self._knocks[peer]) < knock.PROOF_BYTES:
            return
        if not knock.holds(self._token, peer.nonce, self._knocks[peer]):
            with contextlib.suppress(OSError):
                peer.sock.sendall(knock.NO)
            self.drop(peer, "it does not prove that it has the job's token")
            return
        peer.sock.sendall(knock.YES)
        assert self._tls is not None
        self._release(peer)
        peer.secure(self._tls)
        self._keep(peer)
        self._shaking.add(peer)

    def _shake(self, peer: Peer) -> None:
        try:
            peer.sock.do_handshake()  # type: ignore[attr-defined]
        except ssl.SSLWantReadError:
            self._selector.modify(peer.sock, selectors.EVENT_READ, peer)
        except ssl.SSLWantWriteError:
            self._selector.modify(peer.sock, selectors.EVENT_WRITE, peer)
        else:
            self._shaking.discard(peer)
            self._selector.modify(peer.sock, selectors.EVENT_READ, peer)
            self._challenge(peer)

    def _challenge(self, peer: Peer) -> None:
        """Have a stranger greet."""
        if peer.sock.family == socket.AF_UNIX:
            widen(peer.sock)
        else:
            tune(peer.sock)
        self.send(peer, Kind.CHALLENGE, {"nonce": peer.nonce.hex()})

    def _greet(self, peer: Peer, frame: Frame) -> None:
        if frame.kind is not Kind.HELLO:
            raise FrameError(f"a {frame.kind.name} frame where a greeting was expected")
        head = frame.json()
        member = hello.check(head, self._token, peer.nonce)
        if isinstance(peer.sock, ssl.SSLSocket) and (worker := credentials.worker_of(peer.sock)) != member.index:
            raise InputError(f"{member} shows the certificate of worker {worker}: give each its own --tls directory")
        self._release(peer)
        self._arrived(peer, member, hello.process_id(str(head.get("process", ""))))

    def _refused(self, peer: Peer, reason: str, defect: Exception | None = None) -> None:
        self._told.say("refused %s: %s", peer, reason, exc_info=defect)

    def _gone(self, peer: Peer, reason: str) -> None:
        if not peer.closing:
            self._refused(peer, reason)

    def _release(self, peer: Peer) -> None:
        super()._release(peer)
        self._knocks.pop(peer, None)
        self._shaking.discard(peer)

    def _is_late(self, peer: Peer) -> bool:
        return True


class Told:
    """Lines about strangers, who come as often as they like: the first few are told, then how many more there were."""

    def __init__(self) -> None:
        self._since = 0.0
        self._count = 0
        self._last = ""

    def say(self, text: str, *words: object, exc_info: Exception | None = None) -> None:
        if not self._count:
            self._since = time.monotonic()
        self._count += 1
        if self._count <= TOLD_STRANGERS:
            log.warning(text, *words, exc_info=exc_info)
        else:
            self._last = text % words

    def look(self, at_once: bool = False) -> None:
        """Sum up, when it is time to."""
        passed = time.monotonic() - self._since
        if not self._count or (passed < TELLING_SECONDS and not at_once):
            return
        if (more := self._count - TOLD_STRANGERS) > 0:
            log.warning("%d more like these within %.0f s, the last: %s", more, passed, self._last)
        self._count = 0
