"""The strangers workload: a member's round trips of 1 KB over TLS while somebody else keeps knocking.

The stranger opens 400 TLS connections a second, each with a certificate of another job, and is refused. As the limit, it knocks
at another process of the same kind: the machine then has the same work, but not the process that serves the member.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

from umiak.bench.run import Run, free_ports
from umiak.bench.wire import CONNECT_SECONDS, TOKEN, Echo, rate
from umiak.wire import credentials, hello
from umiak.wire.address import Address, listen
from umiak.wire.frames import Channel
from umiak.wire.hello import Member
from umiak.wire.server import FrameServer

PER_SECOND = 400
AT_ONCE = 4
SIZE = 1 << 10
_FORK = multiprocessing.get_context("fork")


def here(run: Run) -> dict[str, Any]:
    return _measure(run, knock_here=True)


def elsewhere(run: Run) -> dict[str, Any]:
    return _measure(run, knock_here=False)


def _measure(run: Run, knock_here: bool) -> dict[str, Any]:
    certificates = credentials.write(run.directory / "job", 1)[0]
    foreign = credentials.write(run.directory / "other", 1)[0]
    first = free_ports(2)
    ours, other = Address("127.0.0.1", first), Address("127.0.0.1", first + 1)
    knocks: Synchronized[int] = _FORK.Value("q", 0)
    with _running(_serve, ours, certificates, run.directory), _running(_serve, other, certificates, run.directory):
        member = _join(ours, certificates)
        _join(other, certificates).close()
        with _running(_knock, ours if knock_here else other, foreign, knocks):
            while knocks.value < PER_SECOND // 4:
                time.sleep(0.01)
            before, began = knocks.value, time.perf_counter()
            result = rate(run, member, SIZE)
            per_second = (knocks.value - before) / (time.perf_counter() - began)
    return {**result, "unit": f"round trips/s beside {per_second:.0f} strangers/s"}


def _join(address: Address, certificates: Path) -> Channel:
    context = credentials.client_context(certificates)
    return hello.join(address, Member("bench", 0, "trainer", 0, 1), TOKEN, context, CONNECT_SECONDS)


def _serve(address: Address, certificates: Path, directory: Path) -> None:
    logging.getLogger("umiak").addHandler(logging.FileHandler(directory / f"{address.port}.log"))
    handler = Echo()
    handler.server = FrameServer([listen(address)], handler, TOKEN, credentials.server_context(certificates))
    while True:
        handler.server.poll(1.0)


def _knock(address: Address, certificates: Path, knocks: Synchronized[int]) -> None:
    context = credentials.client_context(certificates)
    context.verify_mode = ssl.CERT_NONE
    began = time.perf_counter()

    def keep_knocking() -> None:
        while True:
            with (
                contextlib.suppress(OSError),
                socket.create_connection((address.host, address.port)) as plain,
                context.wrap_socket(plain) as sock,
            ):
                sock.recv(1)
            with knocks.get_lock():
                knocks.value += 1
            time.sleep(max(0.0, began + knocks.value / PER_SECOND - time.perf_counter()))

    threads = [threading.Thread(target=keep_knocking) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextlib.contextmanager
def _running(work: Any, *arguments: Any) -> Iterator[None]:
    process = _FORK.Process(target=work, args=arguments, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()
