"""Frames: what travels on every connection. Knows bytes and their bounds, not training.

A frame is a 24-byte header, a small head (JSON or a packed struct, as its kind says) and a body of raw arrays. The
head is padded to a multiple of 8 so that arrays in the body, 8-byte ones first, stay aligned in the receive buffer.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from umiak.errors import RetryError, UmiakError, described
from umiak.wire import knock
from umiak.wire.address import plain

Buffer = bytes | bytearray | memoryview | np.ndarray

VERSION = 3
MAGIC = b"UMK1"
HEADER = struct.Struct("<4sHHIIQ")
MAX_HEAD = 16 << 20
MAX_BODY = 4 << 30
HELLO_LIMIT = 4096
AHEAD = 1 << 15
"""A receiver asks for so many bytes at once: most frames arrive whole, and large bodies go straight to their place."""
RECORD = 1 << 14
"""What TLS encrypts in one go: smaller parts of a frame are joined first."""


class Kind(IntEnum):
    CHALLENGE = 1
    HELLO = 2
    WELCOME = 3
    REFUSED = 4
    SETUP = 10
    FETCH = 11
    ROUND = 12
    REPLY = 13
    REDUCE = 14
    CHECKPOINT = 15
    SNAPSHOT = 16
    DONE = 17
    ERROR = 18
    STATISTICS = 19
    CONTROL = 20


_KINDS = {int(kind): kind for kind in Kind}


class FrameError(UmiakError):
    """Bytes that are no frame, or a frame that is not allowed here."""


class SpeaksTls(FrameError):
    """A server that wants a knock and then TLS, where a frame in the clear was expected."""


class Frame(NamedTuple):
    """One received frame. `body` is a view of the connection's buffer: valid until the next frame is received."""

    kind: Kind
    head: memoryview
    body: np.ndarray

    def json(self) -> dict[str, Any]:
        return decode_json(self.head)


def decode_json(head: Buffer) -> dict[str, Any]:
    try:
        value = json.loads(bytes(head).rstrip(b"\0"))
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a frame's head is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise FrameError("a frame's head is not a JSON object")
    return value


def pack(kind: Kind, head: bytes | dict[str, Any] = b"", parts: Sequence[Buffer] = ()) -> list[memoryview]:
    """The buffers of one frame, ready for sendmsg. Bodies are not copied."""
    raw = json.dumps(head, separators=(",", ":")).encode() if isinstance(head, dict) else head
    raw += b"\0" * (-len(raw) % 8)
    views = [flat(part) for part in parts if len(part)]
    header = HEADER.pack(MAGIC, kind, 0, len(raw), 0, sum(map(len, views)))
    return [memoryview(header + raw), *views]


def flat(part: Buffer) -> memoryview:
    view = part.data if isinstance(part, np.ndarray) else memoryview(part)
    return view.cast("B") if view.nbytes else memoryview(b"")


def unpack_header(raw: bytes | memoryview, limit: int) -> tuple[Kind, int, int]:
    """Kind, head length and body length; `limit` bounds head and body together."""
    magic, kind, _, head, _, body = HEADER.unpack_from(raw)
    if magic == knock.MAGIC:
        raise SpeaksTls("it uses TLS")
    if magic != MAGIC:
        raise FrameError(f"not a frame of this protocol (begins with {bytes(magic)!r})")
    known = _KINDS.get(kind)
    if known is None:
        raise FrameError(f"unknown kind of frame {kind}")
    if head % 8 or head > MAX_HEAD or head + body > limit:
        raise FrameError(f"a frame of {head + body} bytes where at most {limit} are allowed")
    return known, head, body


def read_buffer(size: int, old: np.ndarray | None = None) -> np.ndarray:
    """An aligned byte buffer of at least `size`: the old one if it is large enough."""
    if old is not None and len(old) >= size:
        return old
    words = 1 << max(13, (size - 1).bit_length() - 3)
    return np.empty(words, np.int64).view(np.uint8)


class Channel:
    """The blocking end of a connection: a trainer's, a supervisor's. Not for use by two threads at once."""

    def __init__(self, sock: socket.socket, peer: str, limit: int = MAX_BODY) -> None:
        self.sock, self.peer, self.limit = sock, peer, limit
        self.tls = isinstance(sock, ssl.SSLSocket)
        self._buffer = read_buffer(1 << 16)
        self._ahead = memoryview(bytearray(AHEAD))
        self._start = self._end = 0
        """What of `_ahead` was received and has not been taken yet."""
        self.bytes_sent = self.bytes_received = 0
        self.welcome: dict[str, Any] = {}
        """What the server told when it took this end in."""

    def send(self, kind: Kind, head: bytes | dict[str, Any] = b"", parts: Sequence[Buffer] = ()) -> None:
        views = pack(kind, head, parts)
        self.bytes_sent += sum(map(len, views))
        try:
            if self.tls:
                for view in joined(views):
                    self.sock.sendall(view)
            else:
                send_all(self.sock, views)
        except OSError as error:
            raise self._lost(error) from error

    def receive(self) -> Frame:
        """The next frame, its body in this connection's own buffer."""
        kind, head_size, body_size = self.receive_header()
        self._buffer = read_buffer(head_size + body_size, self._buffer)
        self.fill([self._buffer.data[: head_size + body_size]])
        return Frame(kind, self._buffer.data[:head_size], self._buffer[head_size : head_size + body_size])

    def receive_header(self) -> tuple[Kind, int, int]:
        while (held := self._end - self._start) < HEADER.size:
            if held:
                self._ahead[:held] = self._ahead[self._start : self._end]
            self._start, self._end = 0, held
            try:
                count = self.sock.recv_into(self._ahead[held:])
            except OSError as error:
                raise self._lost(error) from error
            if not count:
                raise self._lost(ConnectionResetError("the connection was closed"))
            self._end += count
        header = unpack_header(self._ahead[self._start : self._end], self.limit)
        self._start += HEADER.size
        return header

    def receive_parts(
        self, kind: Kind, head: memoryview, parts: Sequence[np.ndarray], aside: list[dict[str, Any]]
    ) -> None:
        """Receive a frame of known shape straight into `head` and the arrays.

        A DONE frame that comes first, about work beside the rounds, is put `aside`; an ERROR frame is raised.
        """
        while True:
            got, head_size, body_size = self.receive_header()
            if got is kind:
                break
            aside.append(self._other(got, head_size, body_size))
        expected = sum([part.nbytes for part in parts])
        if head_size != len(head) or body_size != expected:
            raise FrameError(f"{self.peer} sent {body_size} bytes where {expected} were expected")
        self.bytes_received += HEADER.size + head_size + body_size
        self.fill([head, *(flat(part) for part in parts)])

    def fill(self, views: Sequence[memoryview]) -> None:
        """Fill these in turn: with what was received ahead, then from the connection."""
        left = [view for view in views if len(view)]
        while left and (count := min(self._end - self._start, len(left[0]))):
            left[0][:count] = self._ahead[self._start : self._start + count]
            self._start += count
            advance(left, count)
        try:
            while left:
                count = self._receive_into(left)
                if not count:
                    raise ConnectionResetError("the connection was closed")
                advance(left, count)
        except OSError as error:
            raise self._lost(error) from error

    def _receive_into(self, views: list[memoryview]) -> int:
        if self.tls:
            return self.sock.recv_into(views[0])
        return self.sock.recvmsg_into(views[:64], 0, socket.MSG_WAITALL)[0]

    def _other(self, kind: Kind, head_size: int, body_size: int) -> dict[str, Any]:
        raw = memoryview(bytearray(head_size + body_size))
        self.fill([raw])
        if kind is Kind.ERROR:
            raise described(decode_json(raw[:head_size]))
        if kind is not Kind.DONE:
            raise FrameError(f"{self.peer} sent an unexpected {kind.name} frame")
        return decode_json(raw[:head_size])

    def _lost(self, error: OSError) -> RetryError:
        return RetryError(f"lost {self.peer}: {plain(error)}")

    def close(self) -> None:
        self.sock.close()


def send_all(sock: socket.socket, views: list[memoryview]) -> None:
    """sendmsg until everything is out; `views` is consumed."""
    while views:
        advance(views, sock.sendmsg(views[:64]))


def joined(views: list[memoryview]) -> list[memoryview]:
    """The same bytes, neighbouring small buffers made one: each buffer costs TLS a record and a call of its own."""
    merged: list[memoryview] = []
    small: list[memoryview] = []
    for view in views:
        if small and (len(view) > RECORD or sum(map(len, small)) + len(view) > RECORD):
            merged.append(memoryview(b"".join(small)))
            small = []
        if len(view) > RECORD:
            merged.append(view)
        else:
            small.append(view)
    return [*merged, memoryview(b"".join(small))] if small else merged


def advance(views: list[memoryview], sent: int) -> None:
    """Drop `sent` bytes from the front of a list of buffers."""
    while views and sent >= len(views[0]):
        sent -= len(views[0])
        del views[0]
    if sent:
        views[0] = views[0][sent:]
