"""Where the page listens, and its address with the token that lets one browser in."""

from __future__ import annotations

import contextlib
import secrets
import signal
import socket
import threading
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from umiak.errors import InputError
from umiak.page import built, server
from umiak.page.index import Index

PORT = 6116
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Serving:
    """A page that listens already, and answers once it `run`s."""

    address: str
    listener: socket.socket
    server: uvicorn.Server
    index: Index

    def run(self) -> None:
        """Until Ctrl-C or SIGTERM. In the main thread."""
        # Much may have to be read: it begins before a browser asks.
        threading.Thread(target=self.index.refresh, daemon=True).start()
        # Both are how a page is ended; uvicorn closes connections first and then passes the signal on.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with contextlib.suppress(KeyboardInterrupt):
            self.server.run(sockets=[self.listener])


def prepare(
    index: Index, host: str = LOOPBACK, port: int | None = None, tls: tuple[Path, Path] | None = None, place: str = ""
) -> Serving:
    """`place` is what the address shows first: a route of web/src/route.ts."""
    built.check(built.STATIC)
    listener = listen(host, port)
    taken = listener.getsockname()[1]
    token, scheme = secrets.token_urlsafe(24), "https" if tls else "http"
    names = [LOOPBACK, "localhost"] if host == LOOPBACK else [bracketed(host)]
    app = server.application(index, built.STATIC, [f"{name}:{taken}" for name in names], scheme, taken, token)
    return Serving(f"{scheme}://{names[0]}:{taken}/?token={token}{place}", listener, server.serve(app, tls), index)


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def listen(host: str, port: int | None) -> socket.socket:
    """The wanted port; without one, the usual one or any that is free: two pages may run at once."""
    for each in [PORT, 0] if port is None else [port]:
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, each))
        except (OSError, OverflowError) as error:
            listener.close()
            reason = getattr(error, "strerror", None) or str(error)
            continue
        listener.listen(64)
        return listener
    raise InputError(f"cannot listen on {bracketed(host)}:{port}: {reason}; choose another --port")
