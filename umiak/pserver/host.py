"""All services of a parameter server process: who is admitted to them, and which service a connection belongs to."""

from __future__ import annotations

import logging
from typing import Any

from umiak.errors import InputError, RetryError
from umiak.pserver.endpoint import Endpoint
from umiak.pserver.reach import Reach
from umiak.wire.frames import Frame
from umiak.wire.hello import Member
from umiak.wire.server import FrameServer, Peer

log = logging.getLogger("umiak.pserver")


class Host:
    """All services of one process. Decides who is admitted. Without a supervisor there are no generations."""

    def __init__(
        self, job: str, generation: int | None, trainers: int, services: int, log_period: int, reach: Reach
    ) -> None:
        self.job, self.generation, self.trainers = job, generation, trainers
        supervised = generation is not None
        self.endpoints = [Endpoint(index, trainers, log_period, supervised, reach) for index in range(services)]

    def attach(self, server: FrameServer) -> None:
        for endpoint in self.endpoints:
            endpoint.server = server

    @property
    def busy(self) -> bool:
        """Whether trainers are here."""
        return any(endpoint.members.busy for endpoint in self.endpoints)

    def admit(self, peer: Peer, member: Member) -> dict[str, Any]:
        endpoint = self._endpoint(peer)
        if member.role != "trainer" or member.job != self.job:
            raise InputError(f"{member} does not belong here: this server belongs to job {self.job!r}")
        if self.generation is not None and member.generation != self.generation:
            raise RetryError(f"{member} is out of date: generation {self.generation} is under way")
        if member.count and member.count != self.trainers:
            raise InputError(
                f"{member} is one of {member.count}, but this server was started with --num_gradient_servers={self.trainers}"
            )
        if not 0 <= member.index < self.trainers:
            raise InputError(f"{member}: trainer ids go from 0 to {self.trainers - 1}")
        if (other := endpoint.members.at(member.index)) is not None:
            raise InputError(
                f"trainer {member.index} is already here, from {other.name}: give each its own --trainer_id"
            )
        endpoint.members.join(member.index, peer)
        log.info("worker started, peer = %s", peer.name)
        return {"trainers": self.trainers}

    def frame(self, peer: Peer, frame: Frame) -> None:
        self._endpoint(peer).frame(peer, frame)

    def lost(self, peer: Peer, reason: str) -> None:
        self._endpoint(peer).lost(peer, reason)

    def _endpoint(self, peer: Peer) -> Endpoint:
        """A service may be had at several addresses: those of all services follow each other."""
        return self.endpoints[peer.port % len(self.endpoints)]
