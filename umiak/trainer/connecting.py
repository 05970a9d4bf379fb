"""A trainer's connections to the services of its job."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

from umiak.errors import InputError
from umiak.pserver.process import tls_for
from umiak.spec.settings import Settings
from umiak.trainer.services import LocalService, RemoteService
from umiak.trainer.session import Placed
from umiak.trainer.task import Assignment
from umiak.wire import credentials, hello
from umiak.wire.address import Address
from umiak.wire.frames import Channel
from umiak.wire.hello import Member

CONNECT_SECONDS = 60.0
SUPERVISED_SECONDS = 180.0
"""A server that restores from a volume which hangs answers nobody. Where somebody supervises it, nobody else need give it up."""
log = logging.getLogger("umiak.trainer")

Connect = Callable[[Settings, Assignment], AbstractContextManager[tuple[list[Placed], Assignment]]]
"""What `connected` does. The bench has services of its own."""


@contextlib.contextmanager
def connected(settings: Settings, assignment: Assignment) -> Iterator[tuple[list[Placed], Assignment]]:
    """The services of a job, and the assignment with what only they knew.

    Connections are closed at the end in any case, so that servers see who has gone.
    """
    if not assignment.services:
        yield [Placed(LocalService(), dense=True, rows=True)], assignment
        return
    addresses = [Address.parse(service.address) for service in assignment.services]
    directory = str(settings.tls) if settings.tls else None
    tls = tls_for(addresses, directory, settings.insecure, credentials.client_context)
    member = Member(assignment.job, assignment.generation, "trainer", assignment.trainer, assignment.trainers)
    token = assignment.token.encode()
    placed, trainers = [], assignment.trainers
    with contextlib.ExitStack() as channels:
        for index, (address, service) in enumerate(zip(addresses, assignment.services, strict=True)):
            context = None if address.is_unix else tls
            if service.worker is None:
                channel = hello.join(address, member, token, context, CONNECT_SECONDS)
            else:
                patience = SUPERVISED_SECONDS
                channel = hello.join(address, member, token, context, patience, service.worker, answer_seconds=patience)
            channels.callback(channel.close)
            trainers = _agreed(trainers, channel)
            log.info("pserver %d %s", index, address)
            placed.append(Placed(RemoteService(channel), service.dense, service.rows))
        yield placed, replace(assignment, trainers=trainers)


def _agreed(trainers: int, channel: Channel) -> int:
    """The number of trainers, told by the first service to one that did not know it."""
    told = int(channel.welcome["trainers"])
    if trainers and told != trainers:
        raise InputError(
            f"{channel.peer} was started with --num_gradient_servers={told}, other servers with {trainers}: "
            "start all of them with the number of trainers"
        )
    return told
