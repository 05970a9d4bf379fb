"""A link between pods that can be cut and heal: nothing is closed, nothing arrives, and later everything does."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Link:
    """Whoever connects to `port` is connected with the port of `target`, which may change as a name's address does."""

    def __init__(self, target: int, host: str = "127.0.0.1") -> None:
        self.target = target
        self._whole = threading.Event()
        self._whole.set()
        self._listener = socket.create_server((host, 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._whole.clear()

    def heal(self) -> None:
        self._whole.set()

    def close(self) -> None:
        self.heal()
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._listener.accept()
                self._sockets.append(here)
                threading.Thread(target=self._connect, args=(here,), daemon=True).start()

    def _connect(self, here: socket.socket) -> None:
        self._whole.wait()
        try:
            there = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            here.close()
            return
        self._sockets.append(there)
        threading.Thread(target=self._carry, args=(there, here), daemon=True).start()
        self._carry(here, there)

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._whole.wait()
                sink.sendall(data)
        self._whole.wait()
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def link_to(target: int) -> Iterator[Link]:
    link = Link(target)
    try:
        yield link
    finally:
        link.close()
