"""Where a service listens: a TCP host and port, or a unix socket on this machine. Listen and connect."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import logging
import os
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from umiak.errors import InputError, RetryError
from umiak.system import listener
from umiak.wire import knock

PROBE_SECONDS = 10
VANISHED_SECONDS = 180
"""A peer that takes no bytes for so long is gone. It is longer than a volume may hang: whoever waits for one reads nothing."""
PATIENCE_SECONDS = 3.0
SEND_BUFFER = 4 << 20
LONGEST_SOCKET = 107 if sys.platform == "linux" else 103
"""What the system allows for the path of a unix socket, in bytes."""
LONGEST_PARENT = LONGEST_SOCKET - 40
"""Below it come a directory of a random name, and the names of sockets."""
_OUT_OF_TIME = (9, 10)
"""OpenSSL's codes for a certificate that is not yet valid, and for one that has expired."""
_ALERTS_OF_TIME = ("SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_CERTIFICATE_EXPIRED")
"""What a peer says who finds that of our certificate."""
log = logging.getLogger("umiak.wire")


class Address(NamedTuple):
    """`host` and `port`, or the path of a unix socket in `host` with port 0."""

    host: str
    port: int = 0

    @property
    def is_unix(self) -> bool:
        return self.port == 0

    def __str__(self) -> str:
        return f"unix:{self.host}" if self.is_unix else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether traffic to it cannot leave this machine."""
        if self.is_unix or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @classmethod
    def parse(cls, text: str) -> Address:
        if text.startswith("unix:"):
            return cls(text.removeprefix("unix:"))
        host, _, port = text.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise InputError(f"{text!r} is not an address: write host:port or unix:PATH")
        return cls(host.strip("[]"), int(port))


@contextlib.contextmanager
def socket_directory() -> Iterator[Path]:
    """A directory of this user's own for unix sockets, whose paths the system bounds: $TMPDIR, or /tmp if that is too long."""
    parents = dict.fromkeys((tempfile.gettempdir(), "/tmp"))
    short = [parent for parent in parents if len(os.fsencode(parent)) <= LONGEST_PARENT]
    for parent in short:
        try:
            made = tempfile.TemporaryDirectory(prefix="umiak-", dir=parent)
        except OSError:
            continue
        with made as name:
            yield Path(name)
        return
    raise InputError(
        f"no place for unix sockets: {tempfile.gettempdir()} is too long for them ({LONGEST_PARENT} bytes at most) or cannot be "
        "written, and neither can /tmp; set TMPDIR to a shorter directory"
    )


def listen(address: Address) -> socket.socket:
    if address.is_unix:
        if len(os.fsencode(address.host)) > LONGEST_SOCKET:
            raise InputError(f"{address.host} is too long for a unix socket: {LONGEST_SOCKET} bytes at most")
        sock = socket.socket(socket.AF_UNIX)
        Path(address.host).unlink(missing_ok=True)
        sock.bind(address.host)
    else:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        sock = socket.socket(family)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((address.host, address.port))
        except OSError as error:
            sock.close()
            if error.errno == errno.EADDRINUSE:
                raise InputError(
                    f"port {address.port} is in use by {listener(address.port)}: end it or choose another with --port"
                ) from None
            raise InputError(f"cannot listen on {address}: {error.strerror}; check --nics and --port") from None
    sock.listen(128)
    sock.setblocking(False)
    return sock


def connect(address: Address, tls: ssl.SSLContext | None, seconds: float, token: bytes = b"") -> socket.socket:
    """Connect, trying again until `seconds` have passed: a server may start after its clients. TLS begins with a knock."""
    begun = time.monotonic()
    told = False
    while True:
        sock = socket.socket(socket.AF_UNIX) if address.is_unix else None
        try:
            if sock is not None:
                sock.connect(address.host)
                widen(sock)
            else:
                sock = socket.create_connection((address.host, address.port), timeout=10)
                tune(sock)
                if tls is not None:
                    knock.at(sock, token, str(address))
                    sock = tls.wrap_socket(sock, server_hostname=address.host)
            sock.settimeout(None)
            return sock
        except InputError:
            if sock is not None:
                sock.close()
            raise
        except OSError as error:
            if sock is not None:
                sock.close()
            # A server that ends during the handshake is one that may come back; any other TLS error stays what it is.
            if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
                raise distrust(str(address), error) from None
            passed = time.monotonic() - begun
            if passed > seconds:
                raise RetryError(
                    f"cannot reach {address} within {seconds:.0f} s ({plain(error)}): is it running?"
                ) from None
            if passed > PATIENCE_SECONDS and not told:
                log.info("waiting up to %.0f s for %s (%s)", seconds, address, plain(error))
                told = True
            time.sleep(0.05)


def tune(sock: socket.socket) -> None:
    """Small frames leave at once; a machine that vanished is noticed in minutes, however long a round may take."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    limits = {"TCP_KEEPIDLE": PROBE_SECONDS, "TCP_KEEPINTVL": PROBE_SECONDS}
    limits |= {"TCP_KEEPCNT": VANISHED_SECONDS // PROBE_SECONDS, "TCP_USER_TIMEOUT": 1000 * VANISHED_SECONDS}
    for name, value in limits.items():
        if (option := getattr(socket, name, None)) is not None:  # not every system has all of them
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def widen(sock: socket.socket) -> None:
    """Room for a large message in a unix socket, as TCP makes by itself: else its sender waits for every 200 KB of it."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)


def distrust(peer: str, error: ssl.SSLError) -> InputError | RetryError:
    """Why a handshake failed. Both sides have found their own certificates valid: if not, the two clocks disagree."""
    if getattr(error, "verify_code", 0) in _OUT_OF_TIME or error.reason in _ALERTS_OF_TIME:
        now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        return RetryError(
            f"{peer} and this process do not agree about the time ({getattr(error, 'verify_message', '') or plain(error)}): "
            f"here it is {now}; correct the clock that is wrong and try again"
        )
    return InputError(f"{peer} and this process do not trust each other ({plain(error)}): check --tls on both sides")


def plain(error: OSError) -> str:
    """What went wrong with a socket, in words only."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return "no answer in time" if isinstance(error, TimeoutError) else error.strerror or str(error)
