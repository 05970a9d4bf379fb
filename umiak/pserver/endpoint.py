"""One service behind its connections: turns frames into calls on a Service, and what it gives into answers.

It stays when a job ends or loses a trainer: what was in memory is forgotten and the next trainers begin afresh, from a
checkpoint if they say so.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from umiak.errors import InputError, RetryError, UmiakError
from umiak.pserver import pieces
from umiak.pserver.affinity import RoundAffinity
from umiak.pserver.asynchronous import service_for
from umiak.pserver.codec import (
    CheckpointMessage,
    DoneMessage,
    FetchMessage,
    ReduceMessage,
    ReplyHead,
    RoundMessage,
    SetupMessage,
    SnapshotMessage,
    StatisticsMessage,
    WrittenMessage,
)
from umiak.pserver.members import Left, Members, kept, trainer_of
from umiak.pserver.protocol import Fetch, Flags, RoundResult
from umiak.pserver.reach import Reach
from umiak.pserver.service import Answer, Contribution, Service
from umiak.pserver.writer import write_apart
from umiak.wire.frames import Frame, FrameError, Kind
from umiak.wire.server import FrameServer, Peer

log = logging.getLogger("umiak.pserver")


class Endpoint:
    def __init__(self, index: int, trainers: int, log_period: int, supervised: bool, reach: Reach) -> None:
        self.index, self.trainers, self.log_period, self.reach = index, trainers, log_period, reach
        self.supervised = supervised
        """Whether somebody replaces a trainer that is lost."""
        self.server: FrameServer
        self.members = Members()
        self.affinity = RoundAffinity()
        self._handlers: dict[Kind, Callable[[Peer, Frame], None]] = {
            Kind.SETUP: self._setup,
            Kind.FETCH: self._fetch,
            Kind.ROUND: self._round,
            Kind.REDUCE: self._reduce,
            Kind.CHECKPOINT: self._checkpoint,
            Kind.SNAPSHOT: self._snapshot,
            Kind.STATISTICS: self._statistics,
            Kind.DONE: self._done,
        }
        self._forget_job()

    def _forget_job(self) -> None:
        self.service: Service | None = None
        self._waiting: list[tuple[Peer, Callable[[], None]]] = []
        self._after_cut = False
        """Whether a round has ended with a cut, and trainer 0 has not begun the next one."""
        self._arrived: dict[int, float] = {}
        """When each trainer's part of a round came."""
        self._states: dict[int, np.ndarray] = {}
        """Of a checkpoint that is asked for: the state of each trainer that has sent it."""
        self._directory = Path()
        self.affinity.forget()

    def frame(self, peer: Peer, frame: Frame) -> None:
        try:
            self._dispatch(peer, frame)
        except FrameError:
            raise
        except UmiakError as error:
            self.abort(error)
        except Exception as error:
            log.exception("cannot handle a %s frame of %s", frame.kind.name, peer)
            what = f"the server cannot handle a {frame.kind.name} frame of {peer} ({error!r}): see its log"
            self.abort(UmiakError(what))

    def _dispatch(self, peer: Peer, frame: Frame) -> None:
        if self.members.is_early(peer):
            self.members.keep(peer, frame)
            return
        handler = self._handlers.get(frame.kind)
        if handler is None:
            raise FrameError(f"a {frame.kind.name} frame from {peer}")
        handler(peer, frame)

    def lost(self, peer: Peer, reason: str) -> None:
        left, trainer = self.members.leave(peer), trainer_of(peer)
        if left is Left.JOB_DONE:
            log.info("job finished, ready for the next")
            self._next_job()
        elif left is Left.LOST:
            where = f" in round {self.service.round}" if self.service else ""
            log.error("lost trainer %d%s: %s", trainer, where, reason)
            if not (self.supervised and self.service is not None and self.service.lose(trainer)):
                self.abort(RetryError(f"trainer {trainer} was lost{where} ({reason})"))

    def abort(self, error: UmiakError) -> None:
        """The job cannot continue: tell its trainers, and be ready for the next."""
        others = list(self.members.present.values())
        self._next_job()
        for other in others:
            self.server.dismiss(other, error)

    def _next_job(self) -> None:
        self._forget_job()
        for peer, frame in self.members.next_job():
            try:
                self.frame(peer, frame)
            except FrameError as error:
                self.server.drop(peer, str(error))

    def _done(self, peer: Peer, frame: Frame) -> None:
        self.members.finish(trainer_of(peer))

    def _setup(self, peer: Peer, frame: Frame) -> None:
        if trainer_of(peer) != 0:
            raise FrameError("only trainer 0 sets a job up")
        spec, restore, values = SetupMessage.decode(frame)
        if spec.trainers != self.trainers:
            raise InputError(
                f"trainer {trainer_of(peer)} is one of {spec.trainers}, but this server was started with "
                f"--num_gradient_servers={self.trainers}"
            )
        service = service_for(spec, values)
        if restore is not None:
            pieces.restore(service, replace(restore, directory=str(self.reach.readable(restore.directory))))
        self.service = service
        log.info("pserver: setParameter")
        log.info("pserver: new cpuvector: size=%d", service.dense.values.size)
        self.server.send(peer, *DoneMessage.encode())
        self._resume_waiting()

    def _fetch(self, peer: Peer, frame: Frame) -> None:
        service, trainer = self.service, trainer_of(peer)
        self.affinity.release()
        message = FetchMessage.decode(frame)
        if service is None or (message.how is not Fetch.PEEK and self._held(trainer)):
            self._wait(peer, self._fetch, frame)
            return
        parts = [*service.dense.read(message.dense), *service.fetch(trainer, message.ids, message.how)]
        result = RoundResult(service.round, 0, Flags.NONE, 0.0)
        self.server.send(peer, Kind.REPLY, ReplyHead.encode(result), parts)

    def _held(self, trainer: int) -> bool:
        """After a cut, rows are created only once trainer 0 has begun the next round: it may want a checkpoint first.

        If it does, nothing changes until the last trainer's state is here and the checkpoint is being written.
        """
        if self._states:
            return True
        if self._after_cut and trainer == 0:
            self._after_cut = False
            self._resume_waiting()
        return self._after_cut

    def _wait(self, peer: Peer, handler: Callable[[Peer, Frame], None], frame: Frame) -> None:
        copy = kept(frame)
        self._waiting.append((peer, lambda: handler(peer, copy)))

    def _resume_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for peer, call in waiting:
            if peer in self.server.peers:
                call()

    def _round(self, peer: Peer, frame: Frame) -> None:
        service, trainer = self._ready(peer), trainer_of(peer)
        if self._held(trainer):
            self._wait(peer, self._round, frame)
            return
        shapes = [(rows.size, table.dim) for table, rows in zip(service.tables, service.current(trainer), strict=True)]
        message = RoundMessage.decode(frame, service.dense.values.size, shapes)
        service.want(trainer, message.ids)
        part = Contribution(message.samples, message.flags, message.cost, message.dense, message.rows)
        self._arrived[trainer] = time.perf_counter()
        answer = service.take(trainer, message.round, part)
        if answer is not None:
            self._answer(peer, service, answer)
        elif self.affinity.pinned:
            present = self.members.present
            self.affinity.wait(peer.pid, [present[other].pid for other in service.missing() if other in present])

    def _answer(self, peer: Peer, service: Service, answer: Answer) -> None:
        result, receivers = answer.result, [(trainer_of(peer), peer)]
        self._log_round(service, result.round)
        if answer.ends_round:
            self._after_cut = bool(result.flags)
            if Flags.OUT_OF_DATA in result.flags:
                log.info("======== Batch=%d pass END=======", result.round + 1)
            receivers = sorted(self.members.present.items())
            # One service of a job, its first, decides about cores.
            pids = [other.pid for _, other in receivers] if service.spec.index == 0 else []
            self.affinity.round_ended(pids, cut=self._after_cut)
        last = self._arrived[trainer_of(peer)]
        for trainer, receiver in receivers:
            head = ReplyHead.encode(result, last - self._arrived[trainer])
            self.server.send(receiver, Kind.REPLY, head, [answer.values, *service.rows(trainer)])

    def _log_round(self, service: Service, round_id: int) -> None:
        if self.log_period and round_id % self.log_period == self.log_period - 1:
            log.info("Batch=%d samples=%d %s", round_id + 1, service.clock.samples, service.summary())

    def _reduce(self, peer: Peer, frame: Frame) -> None:
        total = self._ready(peer).reduce(trainer_of(peer), ReduceMessage.decode(frame).vector)
        if total is not None:
            for other in self.members.present.values():
                self.server.send(other, *ReduceMessage(total).encode_sum())

    def _statistics(self, peer: Peer, frame: Frame) -> None:
        self.server.send(peer, *StatisticsMessage(self._ready(peer).statistics()).encode())

    def _checkpoint(self, peer: Peer, frame: Frame) -> None:
        service = self._ready(peer)
        message = CheckpointMessage.decode(frame)
        self._states[trainer_of(peer)] = frame.body.copy()
        if trainer_of(peer) == 0:
            self._directory = self.reach.writable(message.directory)
        wanted = self.trainers if service.spec.index == 0 else 1
        if len(self._states) == wanted:
            states, self._states = self._states, {}
            directory = self._directory
            self._write(lambda: pieces.write(directory, service, states, forked=True))
            self._resume_waiting()

    def _snapshot(self, peer: Peer, frame: Frame) -> None:
        service = self._ready(peer)
        directory = self.reach.writable(SnapshotMessage.decode(frame).directory)
        self._write(lambda: pieces.write_open_tables(directory, service))

    def _write(self, work: Callable[[], Any]) -> None:
        """Do file work beside the rounds and report its result to trainer 0, if it is still there by then."""
        peer = self.members.present.get(0)

        def done(result: dict[str, Any]) -> None:
            if peer is not None and self.members.present.get(0) is peer:
                self.server.send(peer, *WrittenMessage.decode(result).encode())

        write_apart(self.server, work, done)

    def _ready(self, peer: Peer) -> Service:
        if self.service is None:
            raise UmiakError(f"{peer} began before trainer 0 had set the job up")
        return self.service
