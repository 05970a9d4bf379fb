"""The wire workload: one client and one server process over our frames, against bare unix sockets with the same traffic.

`wire-trips`: 1 KB there and 1 KB back. `wire-bytes`: 4 MB there and 4 MB back, counted once each way.
"""

from __future__ import annotations

import multiprocessing
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from umiak.bench.run import Run, free_ports
from umiak.wire import credentials, hello
from umiak.wire.address import Address, listen, socket_directory, widen
from umiak.wire.frames import Channel, Frame, Kind
from umiak.wire.hello import Member
from umiak.wire.server import FrameServer, Peer

SIZES = {"wire-trips": 1 << 10, "wire-bytes": 4 << 20}
CONNECT_SECONDS = 20.0
WARM_UP = 5
TOKEN = b"bench"


class Echo:
    """Answers every frame with its own body."""

    server: FrameServer

    def admit(self, peer: Peer, member: Member) -> None:
        pass

    def frame(self, peer: Peer, frame: Frame) -> None:
        self.server.send(peer, Kind.REPLY, b"", [frame.body])

    def lost(self, peer: Peer, reason: str) -> None:
        pass


def unix(run: Run) -> dict[str, Any]:
    with socket_directory() as directory:
        return _frames(run, Address(str(directory / "socket")), None)


def tcp(run: Run) -> dict[str, Any]:
    return _frames(run, Address("127.0.0.1", free_ports(1)), None)


def tls(run: Run) -> dict[str, Any]:
    return _frames(run, Address("127.0.0.1", free_ports(1)), credentials.write(run.directory / "tls", 1)[0])


def _frames(run: Run, address: Address, certificates: Path | None) -> dict[str, Any]:
    def serve() -> None:
        handler = Echo()
        context = credentials.server_context(certificates) if certificates else None
        handler.server = FrameServer([listen(address)], handler, TOKEN, context)
        while True:
            handler.server.poll(1.0)

    def measure() -> dict[str, Any]:
        context = credentials.client_context(certificates) if certificates else None
        channel = hello.join(address, Member("bench", 0, "trainer", 0, 1), TOKEN, context, CONNECT_SECONDS)
        return rate(run, channel, SIZES[run.workload])

    return _with_server(serve, measure)


def rate(run: Run, channel: Channel, size: int) -> dict[str, Any]:
    """How many bodies of this size an Echo sends back in the time of a run."""
    body = np.zeros(size, np.uint8)
    answer = np.empty_like(body)

    def trip() -> None:
        channel.send(Kind.ROUND, b"", [body])
        channel.receive_parts(Kind.REPLY, memoryview(b""), [answer], [])

    return _rate(run, trip)


def bare(run: Run) -> dict[str, Any]:
    """Unix sockets with room for a message, and nothing around them: no framing, no checks, the size known to both."""
    with socket_directory() as directory:
        return _bare(run, str(directory / "socket"))


def _bare(run: Run, path: str) -> dict[str, Any]:
    size = SIZES[run.workload]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def serve() -> None:
        sock, _ = listener.accept()
        widen(sock)
        buffer = memoryview(bytearray(size))
        while _receive(sock, buffer):
            sock.sendall(buffer)

    def measure() -> dict[str, Any]:
        body, answer = bytes(size), memoryview(bytearray(size))
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(path)
            widen(sock)

            def trip() -> None:
                sock.sendall(body)
                _receive(sock, answer)

            return _rate(run, trip)

    return _with_server(serve, measure)


def _receive(sock: socket.socket, buffer: memoryview) -> bool:
    done = 0
    while done < len(buffer):
        count = sock.recv_into(buffer[done:], 0, socket.MSG_WAITALL)
        if not count:
            return False
        done += count
    return True


def _with_server(serve: Callable[[], None], measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    server = multiprocessing.get_context("fork").Process(target=serve, daemon=True)
    server.start()
    try:
        return measure()
    finally:
        server.kill()
        server.join()


def _rate(run: Run, trip: Callable[[], None]) -> dict[str, Any]:
    for _ in range(WARM_UP):
        trip()
    began, trips = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < run.seconds:
        trip()
        trips += 1
    run.watch.stop()
    if run.workload == "wire-bytes":
        return {"samples_per_s": 2 * trips * SIZES["wire-bytes"] / passed / 1e6, "unit": "MB/s"}
    return {"samples_per_s": trips / passed, "unit": "round trips/s"}
