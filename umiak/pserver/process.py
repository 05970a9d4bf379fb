"""Runs a parameter server: listens on its ports and serves until told to end. Never imports torch."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from umiak.errors import InputError
from umiak.pserver.host import Host, log
from umiak.pserver.reach import Reach
from umiak.system import open_more_files
from umiak.wire import credentials
from umiak.wire.address import Address, listen
from umiak.wire.server import FrameServer


@dataclass(frozen=True)
class ServerOptions:
    """What a parameter server needs to know; the job itself is described by trainer 0."""

    job: str
    generation: int | None
    trainers: int
    addresses: Sequence[str]
    root: str
    """The directory that it reads and writes below; trainers can name no other."""
    sources: Sequence[str] = ()
    """What a new run begins with: read, never written."""
    token: str = ""
    tls: str | None = None
    insecure: bool = False
    log_file: str | None = None
    log_period: int = 500
    beside: Sequence[str] = ()
    """Further addresses of the same services, in the same order: unix sockets for a trainer beside them."""
    echo: bool = False
    """Whether log lines go to standard error too, marked as a server's."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def serve(options: ServerOptions, ready: Callable[[], None], lifeline: int) -> None:
    """Serve until `lifeline`, a file descriptor, reaches its end."""
    ended = False

    def end() -> None:
        nonlocal ended
        ended = True

    with listening(options) as (server, _):
        server.watch(lifeline, end)
        ready()
        while not ended:
            server.poll(1.0)


@contextlib.contextmanager
def listening(options: ServerOptions) -> Iterator[tuple[FrameServer, Host]]:
    """A parameter server on all its addresses, to be polled."""
    # Each trainer holds a connection to each service; the usual limit of 1024 is soon reached.
    open_more_files()
    addresses = [Address.parse(text) for text in options.addresses]
    beside = [Address.parse(text) for text in options.beside]
    tls = tls_for(addresses, options.tls, options.insecure, credentials.server_context)
    log.info("number of parameterServer instances: %d", len(addresses))
    listeners = []
    for index, address in enumerate(addresses):
        log.info("Starting parameterServer[%d]", index)
        listeners.append(listen(address))
        log.info("tcp server start" if not address.is_unix else "unix server start")
    listeners += [listen(address) for address in beside]
    reach = Reach(Path(options.root), tuple(map(Path, options.sources)))
    host = Host(options.job, options.generation, options.trainers, len(addresses), options.log_period, reach)
    server = FrameServer(listeners, host, options.token.encode(), tls)
    host.attach(server)
    try:
        yield server, host
    finally:
        server.close()
        for address in addresses + beside:
            if address.is_unix:
                Path(address.host).unlink(missing_ok=True)


def tls_for(
    addresses: Sequence[Address], directory: str | None, insecure: bool, context: Callable[[Path], ssl.SSLContext]
) -> ssl.SSLContext | None:
    """The TLS context to use with these addresses; traffic that may leave the machine needs one, or --insecure."""
    if directory is not None:
        return context(Path(directory))
    if not insecure and (remote := [address for address in addresses if not address.is_local]):
        raise InputError(
            f"traffic with {remote[0]} may leave this machine: give --tls DIR (`umiak certs` writes one), "
            "or --insecure to do without"
        )
    return None
