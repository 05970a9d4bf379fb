"""Who is on the other end: both sides of the greeting that every connection begins with.

The server sends a random challenge; the client answers with who it is and an HMAC over challenge and answer under the
job's token. Nothing else is read from a connection before that. With TLS the certificates have already proved
membership of the job.
"""

from __future__ import annotations

import hmac
import json
import os
import ssl
from dataclasses import asdict, dataclass
from typing import Any

from umiak.errors import InputError
from umiak.wire import frames
from umiak.wire.address import Address, connect
from umiak.wire.frames import Channel, Kind


@dataclass(frozen=True)
class Member:
    """A process of a job. `role` is trainer or worker (a supervisor); `count` is how many of them the job has."""

    job: str
    generation: int
    role: str
    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.role} {self.index} of job {self.job!r}, generation {self.generation}"


def challenge() -> bytes:
    return os.urandom(32)


def proof(token: bytes, nonce: bytes, member: Member) -> str:
    text = json.dumps(asdict(member), sort_keys=True).encode()
    return hmac.new(token, nonce + text, "sha256").hexdigest()


def check(head: dict[str, Any], token: bytes, nonce: bytes) -> Member:
    """The member that a HELLO names, if its proof holds; an InputError says what does not."""
    if head.get("version") != frames.VERSION:
        raise InputError(
            f"protocol version {head.get('version')!r} where {frames.VERSION} is spoken: use one version of umiak"
        )
    try:
        member = Member(
            job=str(head["job"]),
            generation=int(head["generation"]),
            role=str(head["role"]),
            index=int(head["index"]),
            count=int(head["count"]),
        )
    except (KeyError, TypeError, ValueError):
        raise InputError("an incomplete greeting") from None
    if not hmac.compare_digest(str(head.get("proof", "")), proof(token, nonce, member)):
        raise InputError(f"{member}: the proof does not hold, it has another job's token")
    return member


def join(address: Address, member: Member, token: bytes, tls: ssl.SSLContext | None, seconds: float) -> Channel:
    """Connect and greet. A refusal is raised with the server's reason."""
    channel = Channel(connect(address, tls, seconds), str(address))
    channel.sock.settimeout(30)
    frame = channel.receive()
    if frame.kind is not Kind.CHALLENGE:
        raise frames.FrameError(f"{address} is not a umiak server")
    nonce = bytes.fromhex(frame.json()["nonce"])
    channel.send(Kind.HELLO, {**asdict(member), "version": frames.VERSION, "proof": proof(token, nonce, member)})
    frame = channel.receive()
    if frame.kind is not Kind.WELCOME:
        channel.close()
        raise frames.reported(frame.json())
    channel.sock.settimeout(None)
    return channel
