"""A worker's connection with its coordinator: how it joins, what comes in, and how it ends."""

from __future__ import annotations

import select
import ssl
from typing import TYPE_CHECKING

from umiak.errors import RetryError, UmiakError, described
from umiak.messages import control
from umiak.messages.control import Order
from umiak.wire import hello
from umiak.wire.address import Address
from umiak.wire.frames import Channel, Frame, Kind
from umiak.wire.hello import Member

if TYPE_CHECKING:
    from umiak.worker.supervisor import WorkerPlan

SILENCE_SECONDS = 10.0
COORDINATOR = 0
"""In a cluster the coordinator runs beside this worker and shows its certificate."""


class Dismissed(UmiakError):
    """The coordinator wants nothing more of this worker."""


class Silent(RetryError):
    """The coordinator is connected and says nothing."""


def join(plan: WorkerPlan, tls: ssl.SSLContext | None, seconds: float) -> Channel:
    """Connect to the coordinator. A peer that stops in the middle of a frame is not waited for long."""
    member = Member(plan.job, 0, "worker", plan.index, plan.workers, plan.incarnation)
    address, token = Address.parse(plan.coordinator), plan.token.encode()
    # A coordinator waits for nothing: one that does not answer is frozen, and its name may lead to another by now.
    channel = hello.join(address, member, token, tls, seconds, COORDINATOR, answer_seconds=SILENCE_SECONDS)
    channel.sock.settimeout(SILENCE_SECONDS)
    return channel


def arrived(channel: Channel) -> Frame | None:
    """The next frame, if any of it is here."""
    ready = pending(channel) or select.select([channel.sock], [], [], 0)[0]
    return channel.receive() if ready else None


def pending(channel: Channel) -> bool:
    """Whether TLS has decrypted more than was asked for: the socket does not become readable for it."""
    return isinstance(channel.sock, ssl.SSLSocket) and channel.sock.pending() > 0


def order_of(frame: Frame) -> Order:
    """What the coordinator says. Raises Dismissed if it wants nothing more of this worker."""
    if frame.kind is Kind.ERROR:
        error = described(frame.json())
        dismissed = Dismissed(str(error))
        dismissed.exit_code = error.exit_code
        raise dismissed
    return control.decode_order(frame.json())
