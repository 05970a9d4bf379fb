"""Who is on the other end: both sides of the greeting that every connection begins with.

The server sends a random challenge; the client answers with who it is and an HMAC over challenge and answer under the
job's token. Nothing else is read from a connection before that. With TLS the certificates have already proved
membership of the job.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import ssl
from dataclasses import asdict, dataclass
from typing import Any

from umiak.errors import InputError, RetryError, described
from umiak.system import process_namespace
from umiak.wire import credentials, frames
from umiak.wire.address import Address, connect, distrust
from umiak.wire.frames import Channel, FrameError, Kind, SpeaksTls

ROLES = ("trainer", "worker")
ANSWER_SECONDS = 30.0
PROCESS_ID = re.compile("[0-9]{1,7}")


@dataclass(frozen=True)
class Member:
    """A process of a job. `role` is trainer or worker (a supervisor); `count` is how many of them the job has; a trainer
    that does not know says 0, and the server's WELCOME tells it.

    `incarnation` is random and tells a worker from the one that had its place before; trainers have none.
    """

    job: str
    generation: int
    role: str
    index: int
    count: int
    incarnation: str = ""

    def __str__(self) -> str:
        return f"{self.role} {self.index} of job {self.job!r}, generation {self.generation}"


def process() -> str:
    """This process, named so that whoever sees the processes of this machine by the same ids knows it, and nobody else."""
    where = process_namespace()
    return f"{where}:{os.getpid()}" if where else ""


def process_id(name: str) -> int:
    """The id of the process that calls itself so; 0 if it cannot be told, as that of one on another machine."""
    where, _, number = name.rpartition(":")
    here = process().rpartition(":")[0]
    return int(number) if here and where == here and PROCESS_ID.fullmatch(number) else 0


def challenge() -> bytes:
    return os.urandom(32)


def proof(token: bytes, nonce: bytes, member: Member) -> str:
    text = json.dumps(asdict(member), sort_keys=True).encode()
    return hmac.new(token, nonce + text, "sha256").hexdigest()


def check(head: dict[str, Any], token: bytes, nonce: bytes) -> Member:
    """The member that a HELLO names, if its proof holds; an InputError says what does not."""
    if head.get("version") != frames.VERSION:
        raise InputError(
            f"protocol version {head.get('version')!r}, but this process uses {frames.VERSION}: "
            "use one version of umiak everywhere"
        )
    try:
        member = Member(
            job=str(head["job"]),
            generation=int(head["generation"]),
            role=str(head["role"]),
            index=int(head["index"]),
            count=int(head["count"]),
            incarnation=str(head.get("incarnation", "")),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError("an incomplete greeting") from None
    if member.role not in ROLES:
        raise InputError(f"a greeting of the unknown role {member.role!r}")
    given = str(head.get("proof", "")).encode(errors="replace")
    if not hmac.compare_digest(given, proof(token, nonce, member).encode()):
        raise InputError(f"{member}: its proof is wrong, it has another job's token")
    return member


def join(
    address: Address,
    member: Member,
    token: bytes,
    tls: ssl.SSLContext | None,
    seconds: float,
    worker: int | None = None,
    answer_seconds: float = ANSWER_SECONDS,
) -> Channel:
    """Connect and greet. A refusal is raised with the server's reason.

    With TLS the server must show the certificate of `worker`; where that is not known, any certificate of the job is good.
    """
    channel = Channel(connect(address, tls, seconds, token), str(address))
    try:
        _recognise(channel, worker)
        channel.sock.settimeout(answer_seconds)
        _greet(channel, member, token)
        channel.sock.settimeout(None)
    except BaseException:
        channel.close()
        raise
    return channel


def _recognise(channel: Channel, worker: int | None) -> None:
    """Nothing is said to one member of the job that poses as another."""
    if worker is None or not isinstance(channel.sock, ssl.SSLSocket):
        return
    if (shown := credentials.worker_of(channel.sock)) != worker:
        raise InputError(
            f"{channel.peer} shows the certificate of worker {shown} where worker {worker} should be: "
            "give each worker its own --tls directory"
        )


def _greet(channel: Channel, member: Member, token: bytes) -> None:
    try:
        frame = channel.receive()
        if frame.kind is not Kind.CHALLENGE:
            raise FrameError(f"it begins with a {frame.kind.name} frame")
        nonce = bytes.fromhex(str(frame.json().get("nonce")))
    except SpeaksTls:
        raise InputError(f"{channel.peer} uses TLS, and this process does not: check --tls on both sides") from None
    except (FrameError, ValueError) as error:
        raise InputError(f"{channel.peer} is not an umiak server ({error}): check --pservers and --port") from None
    except RetryError as error:
        if isinstance(error.__cause__, ssl.SSLError):
            raise distrust(channel.peer, error.__cause__) from None
        raise RetryError(f"{error} before it said anything: is it an umiak server, and does it use --tls?") from None
    greeting = {**asdict(member), "version": frames.VERSION, "proof": proof(token, nonce, member), "process": process()}
    channel.send(Kind.HELLO, greeting)
    frame = channel.receive()
    if frame.kind is not Kind.WELCOME:
        raise described(frame.json())
    channel.welcome = frame.json()
