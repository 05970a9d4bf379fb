"""A parameter server process: its services behind their ports. Turns frames into calls on a Service and answers them.

It stays when a job ends or loses a trainer: whatever was in memory is forgotten and the next trainers begin afresh, from a
checkpoint if they say so.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from umiak.errors import InputError, RetryError, UmiakError
from umiak.pserver import pieces
from umiak.pserver.affinity import LONG_SECONDS, Affinity
from umiak.pserver.asynchronous import AsyncService, service_for
from umiak.pserver.protocol import (
    FETCH_HEAD,
    REPLY_HEAD,
    ROUND_HEAD,
    TABLE_HEAD,
    Dense,
    Fetch,
    Flags,
    Outcome,
    ServiceSpec,
)
from umiak.pserver.reach import Reach
from umiak.pserver.service import Contribution, Service
from umiak.pserver.writer import write_apart
from umiak.wire.frames import Frame, FrameError, Kind
from umiak.wire.hello import Member
from umiak.wire.server import FrameServer, Peer

log = logging.getLogger("umiak.pserver")


class Endpoint:
    """One service and the trainers connected to it."""

    def __init__(self, index: int, trainers: int, log_period: int, supervised: bool, reach: Reach) -> None:
        self.index, self.trainers, self.log_period, self.reach = index, trainers, log_period, reach
        self.supervised = supervised
        """Whether somebody replaces a trainer that is lost."""
        self.server: FrameServer
        self.arriving: dict[int, Peer] = {}
        """Trainers of the next job: they came while some of the last one's had not left yet."""
        self.early: list[tuple[Peer, Frame]] = []
        self.affinity = Affinity()
        self.reset()

    def reset(self) -> None:
        """Forget the job that was; those who wait for the next begin it."""
        self.service: Service | None = None
        self.peers, self.arriving = self.arriving, {}
        self.finished: set[int] = set()
        self.waiting: list[tuple[Peer, Callable[[], None]]] = []
        self.boundary = False
        self.affinity.release()
        self.began = 0.0
        """When the round began; 0 before the first."""
        self.blobs: dict[int, np.ndarray] = {}
        early, self.early = self.early, []
        for peer, frame in early:
            try:
                self.frame(peer, frame)
            except FrameError as error:
                self.server.drop(peer, str(error))

    def gathering(self) -> dict[int, Peer]:
        """Where a trainer that comes now belongs."""
        return self.arriving if self.finished else self.peers

    def frame(self, peer: Peer, frame: Frame) -> None:
        try:
            self._frame(peer, frame)
        except FrameError:
            raise
        except UmiakError as error:
            self.abort(error)
        except Exception as error:
            log.exception("cannot handle a %s frame of %s", frame.kind.name, peer)
            what = f"the server cannot handle a {frame.kind.name} frame of {peer} ({error!r}): its log says more"
            self.abort(UmiakError(what))

    def _frame(self, peer: Peer, frame: Frame) -> None:
        if self.arriving.get(trainer_of(peer)) is peer:
            self.early.append((peer, kept(frame)))
        elif frame.kind is Kind.SETUP:
            self._setup(peer, frame)
        elif frame.kind is Kind.FETCH:
            self._fetch(peer, frame)
        elif frame.kind is Kind.ROUND:
            self._round(peer, frame)
        elif frame.kind is Kind.REDUCE:
            self._reduce(peer, frame)
        elif frame.kind is Kind.CHECKPOINT:
            self._checkpoint(peer, frame)
        elif frame.kind is Kind.SNAPSHOT:
            self._snapshot(peer, frame)
        elif frame.kind is Kind.STATISTICS:
            self.server.send(peer, Kind.STATISTICS, self._ready(peer).statistics())
        elif frame.kind is Kind.DONE:
            self.finished.add(trainer_of(peer))
        else:
            raise FrameError(f"a {frame.kind.name} frame from {peer}")

    def lost(self, peer: Peer, reason: str) -> None:
        trainer = trainer_of(peer)
        if self.arriving.get(trainer) is peer:
            del self.arriving[trainer]
            self.early = [(other, frame) for other, frame in self.early if other is not peer]
        if self.peers.get(trainer) is not peer:
            return
        del self.peers[trainer]
        if trainer in self.finished:
            if not self.peers:
                log.info("job finished, ready for the next")
                self.reset()
            return
        where = f" in round {self.service.round}" if self.service else ""
        log.error("lost trainer %d%s: %s", trainer, where, reason)
        if self.supervised and isinstance(self.service, AsyncService) and self.service.can_lose(trainer):
            self.service.forget(trainer)
            return
        self.abort(RetryError(f"trainer {trainer} was lost{where} ({reason})"))

    def abort(self, error: UmiakError) -> None:
        """Nobody can go on: tell the others and begin afresh."""
        others = list(self.peers.values())
        self.reset()
        for other in others:
            self.server.dismiss(other, error)

    def _setup(self, peer: Peer, frame: Frame) -> None:
        if trainer_of(peer) != 0:
            raise FrameError("only trainer 0 sets a job up")
        head = frame.json()
        spec = ServiceSpec.from_json(head["spec"])
        if spec.trainers != self.trainers:
            raise InputError(
                f"trainer {trainer_of(peer)} is one of {spec.trainers}, but this server was started with "
                f"--num_gradient_servers={self.trainers}"
            )
        service = service_for(spec, frame.body.view(np.float32))
        if source := head["restore"]:
            pieces.restore(service, {**source, "directory": self.reach.readable(source["directory"])})
        self.service = service
        log.info("pserver: setParameter")
        log.info("pserver: new cpuvector: size=%d", service.dense.values.size)
        self.server.send(peer, Kind.DONE, {})
        self._resume_waiting()

    def _fetch(self, peer: Peer, frame: Frame) -> None:
        service = self.service
        trainer = trainer_of(peer)
        self.affinity.release()
        how, dense = FETCH_HEAD.unpack_from(frame.head)
        if how not in Fetch._value2member_map_:
            raise FrameError(f"a FETCH of unknown kind {how} from {peer}")
        if dense not in Dense._value2member_map_:
            raise FrameError(f"a FETCH of unknown values {dense} from {peer}")
        if service is None or (how != Fetch.PEEK and self._held(trainer)):
            copy = kept(frame)
            self.waiting.append((peer, lambda: self._fetch(peer, copy)))
            return
        ids, _ = self._ids(service, frame, FETCH_HEAD.size)
        parts = [*service.dense.read(Dense(dense)), *service.fetch(trainer, ids, Fetch(how))]
        self.server.send(peer, Kind.REPLY, self._reply(Outcome(service.round, 0, Flags.NONE, 0.0)), parts)

    def _held(self, trainer: int) -> bool:
        """After a cut, rows are created only once trainer 0 has gone on: it may want a checkpoint first."""
        if self.boundary and trainer == 0:
            self.boundary = False
            self._resume_waiting()
        return self.boundary

    def _resume_waiting(self) -> None:
        waiting, self.waiting = self.waiting, []
        for peer, call in waiting:
            if peer in self.server.peers:
                call()

    def _round(self, peer: Peer, frame: Frame) -> None:
        service = self._ready(peer)
        trainer = trainer_of(peer)
        if self._held(trainer):
            copy = kept(frame)
            self.waiting.append((peer, lambda: self._round(peer, copy)))
            return
        round_id, samples, flags, cost = ROUND_HEAD.unpack_from(frame.head)
        ids, end = self._ids(service, frame, ROUND_HEAD.size)
        part = Contribution(samples, Flags(flags), cost)
        if samples:
            floats = frame.body[end:].view(np.float32)
            size = service.dense.values.size
            part.dense, at = floats[:size], size
            for table, rows in zip(service.tables, service.current(trainer), strict=True):
                part.rows.append(floats[at : at + rows.size * table.dim].reshape(-1, table.dim))
                at += rows.size * table.dim
            if at != floats.size:
                raise FrameError(f"{floats.size} gradient values where {at} were expected")
        elif end != frame.body.size:
            raise FrameError("gradients of no samples")
        service.want(trainer, ids)
        if isinstance(service, AsyncService):
            self._answer(peer, service, service.apply(trainer, part))
        elif service.contribute(trainer, round_id, part):
            self._complete(service)
        elif self.affinity.pinned:
            self.affinity.wait(peer.pid, [self.peers[other].pid for other in service.missing() if other in self.peers])

    def _complete(self, service: Service) -> None:
        outcome = service.finish()
        self.boundary = bool(outcome.flags)
        self._log_round(service, outcome.round)
        if Flags.OUT_OF_DATA in outcome.flags:
            log.info("======== Batch=%d pass END=======", outcome.round + 1)
        head = self._reply(outcome)
        self._pin(service, outcome)
        for trainer, peer in sorted(self.peers.items()):
            self.server.send(peer, Kind.REPLY, head, [service.dense.values, *service.rows(trainer)])

    def _pin(self, service: Service, outcome: Outcome) -> None:
        """One service of a job pins its trainers to cores for the round that begins, if the last one was long."""
        now, began = time.monotonic(), self.began
        self.began = now
        if outcome.flags or now - began < LONG_SECONDS:
            self.affinity.release()
        elif service.spec.index == 0 and began:
            self.affinity.pin([peer.pid for _, peer in sorted(self.peers.items())])

    def _answer(self, peer: Peer, service: AsyncService, outcome: Outcome) -> None:
        self._log_round(service, outcome.round)
        # A copy, because the next update does not wait until this has been sent.
        parts = [service.dense.values.copy(), *service.rows(trainer_of(peer))]
        self.server.send(peer, Kind.REPLY, self._reply(outcome), parts)

    def _log_round(self, service: Service, round_id: int) -> None:
        if self.log_period and round_id % self.log_period == self.log_period - 1:
            log.info("Batch=%d samples=%d %s", round_id + 1, service.clock.samples, service.summary())

    def _reduce(self, peer: Peer, frame: Frame) -> None:
        total = self._ready(peer).reduce(trainer_of(peer), frame.body.view(np.float64))
        if total is not None:
            for other in self.peers.values():
                self.server.send(other, Kind.REPLY, b"", [total])

    def _checkpoint(self, peer: Peer, frame: Frame) -> None:
        service = self._ready(peer)
        self.blobs[trainer_of(peer)] = frame.body.copy()
        if trainer_of(peer) == 0:
            self.directory = self.reach.writable(frame.json()["directory"])
        wanted = self.trainers if service.spec.index == 0 else 1
        if len(self.blobs) == wanted:
            blobs, self.blobs = self.blobs, {}
            directory = self.directory
            self._write(lambda: pieces.write(directory, service, blobs, forked=True))

    def _snapshot(self, peer: Peer, frame: Frame) -> None:
        service = self._ready(peer)
        directory = self.reach.writable(frame.json()["directory"])
        self._write(lambda: pieces.write_open_tables(directory, service))

    def _write(self, work: Callable[[], Any]) -> None:
        """Do file work beside the rounds and report its result to trainer 0, if it is still there by then."""
        peer = self.peers.get(0)

        def done(result: dict[str, Any]) -> None:
            kind = Kind.ERROR if "message" in result else Kind.DONE
            if peer is not None and self.peers.get(0) is peer:
                self.server.send(peer, kind, result)

        write_apart(self.server, work, done)

    def _ids(self, service: Service, frame: Frame, at: int) -> tuple[list[np.ndarray], int]:
        """The ids at the front of a body, per table, and where they end."""
        ids, end = [], 0
        for number in range(len(service.tables)):
            count = TABLE_HEAD.unpack_from(frame.head, at + number * TABLE_HEAD.size)[0]
            if end + 8 * count > frame.body.size:
                raise FrameError(f"{count} ids in a body of {frame.body.size} bytes")
            ids.append(frame.body[end : end + 8 * count].view(np.int64))
            end += 8 * count
        return ids, end

    def _reply(self, outcome: Outcome) -> bytes:
        return REPLY_HEAD.pack(outcome.round, outcome.samples, outcome.flags, outcome.cost)

    def _ready(self, peer: Peer) -> Service:
        if self.service is None:
            raise UmiakError(f"{peer} began before trainer 0 had set the job up")
        return self.service


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
        return any(endpoint.peers or endpoint.arriving for endpoint in self.endpoints)

    def admit(self, peer: Peer, member: Member) -> dict[str, Any]:
        endpoint = self._endpoint(peer)
        if member.role != "trainer" or member.job != self.job:
            raise InputError(f"{member} does not belong here: this server is of job {self.job!r}")
        if self.generation is not None and member.generation != self.generation:
            raise RetryError(f"{member} is out of date: generation {self.generation} is under way")
        if member.count and member.count != self.trainers:
            raise InputError(
                f"{member} is one of {member.count}, but this server was started with --num_gradient_servers={self.trainers}"
            )
        if not 0 <= member.index < self.trainers:
            raise InputError(f"{member}: trainer ids go from 0 to {self.trainers - 1}")
        if (other := endpoint.gathering().get(member.index)) is not None:
            raise InputError(
                f"trainer {member.index} is already here, from {other.name}: give each its own --trainer_id"
            )
        endpoint.gathering()[member.index] = peer
        log.info("worker started, peer = %s", peer.name)
        return {"trainers": self.trainers}

    def frame(self, peer: Peer, frame: Frame) -> None:
        self._endpoint(peer).frame(peer, frame)

    def lost(self, peer: Peer, reason: str) -> None:
        self._endpoint(peer).lost(peer, reason)

    def _endpoint(self, peer: Peer) -> Endpoint:
        """A service may be had at several addresses: those of all services follow each other."""
        return self.endpoints[peer.port % len(self.endpoints)]


def kept(frame: Frame) -> Frame:
    """A copy that outlives the connection's buffer."""
    return frame._replace(head=memoryview(bytes(frame.head)), body=frame.body.copy())


def trainer_of(peer: Peer) -> int:
    assert peer.member is not None
    return peer.member.index
