"""A server in a thread of the test's own process, what it logs, and ways to knock at its door."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from umiak.wire import hello
from umiak.wire.address import Address, connect, listen
from umiak.wire.frames import Channel, Frame, Kind
from umiak.wire.hello import Member
from umiak.wire.server import FrameServer, Handler, Peer

TOKEN = b"secret"
JOB = "here"


class Echo:
    """Admits every member of its job and answers each NOTE with the same body."""

    def __init__(self) -> None:
        self.server: FrameServer
        self.admitted: list[Member] = []

    def attach(self, server: FrameServer) -> None:
        self.server = server

    def admit(self, peer: Peer, member: Member) -> None:
        assert member.job == JOB
        self.admitted.append(member)

    def frame(self, peer: Peer, frame: Frame) -> None:
        self.server.send(peer, Kind.CONTROL, {}, [frame.body.copy()])

    def lost(self, peer: Peer, reason: str) -> None:
        logging.getLogger("umiak.wire").info("lost %s: %s", peer, reason)


class Served:
    """A running server. `log` holds what it has logged."""

    def __init__(self, address: Address, log: list[str]) -> None:
        self.address, self.log = address, log

    def knock(self) -> socket.socket:
        """A connection that has said nothing yet."""
        return connect(self.address, None, 5.0)

    def join(self, index: int = 0, tls: ssl.SSLContext | None = None, **changes: object) -> Channel:
        member = {"job": JOB, "generation": 0, "role": "trainer", "index": index, "count": 2, **changes}
        token = member.pop("token", TOKEN)
        channel = hello.join(self.address, Member(**member), token, tls, 5.0)  # type: ignore[arg-type]
        channel.sock.settimeout(10)
        return channel

    def still_serves(self, tls: ssl.SSLContext | None = None) -> None:
        """The whole point: a member gets in and is answered. (With an Echo behind the door.)"""
        channel = self.join(tls=tls)
        channel.send(Kind.CONTROL, {}, [b"are you there"])
        assert channel.receive().body.tobytes() == b"are you there"
        channel.close()

    def logged(self, text: str, seconds: float = 10.0) -> str:
        """The first line that contains `text`, waiting for it if need be."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if found := [line for line in self.log if text in line]:
                return found[0]
            time.sleep(0.01)
        raise AssertionError(f"{text!r} was not logged, but {self.log}")


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextlib.contextmanager
def served(
    handler: Handler | None = None, tls: ssl.SSLContext | None = None, unix: Path | None = None
) -> Iterator[Served]:
    """Serve on a free port, or on a unix socket. Fails if the serving thread dies of anything a test did to it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = Address(str(unix)) if unix else Address("127.0.0.1", free.getsockname()[1])
    handler = handler or Echo()
    server = FrameServer([listen(address)], handler, TOKEN, tls)
    handler.attach(server)  # type: ignore[attr-defined]
    ending = threading.Event()
    failures: list[BaseException] = []

    def poll() -> None:
        try:
            while not ending.is_set():
                server.poll(0.02)
        except BaseException as error:
            failures.append(error)

    logger = logging.getLogger("umiak")
    lines = _Lines()
    level = logger.level
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield Served(address, lines.lines)
    finally:
        ending.set()
        thread.join(20)
        server.close()
        logger.removeHandler(lines)
        logger.setLevel(level)
        if failures:
            raise AssertionError("the server died") from failures[0]
