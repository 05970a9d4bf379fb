"""The one that brings workers together: who is there, when a generation starts, what its end means. Holds no model.

Supervisors connect to it and stay connected. It runs in the launcher of a local job.

    gathering --all workers ready--> running --all trainers ended well--> done
        ^                              |  \\--stopped as asked, input error, or restarts used up--> ended
        \\--------- a failure ---------/
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from umiak.errors import InputError
from umiak.wire.frames import Frame, Kind
from umiak.wire.hello import Member
from umiak.wire.server import FrameServer, Peer

SILENCE_SECONDS = 10.0
GATHER_SECONDS = 600.0
PROGRESS_SECONDS = 600.0
BLAME_SECONDS = 1.5
REPEATS = 3
log = logging.getLogger("umiak.worker")


@dataclass(frozen=True)
class Failure:
    """Why a generation ended. `code` is the process's exit code, negative for a signal."""

    worker: int
    role: str
    code: int
    message: str
    round: int

    @property
    def is_consequence(self) -> bool:
        """Whether it only tells that somebody else was lost."""
        return self.code == 75

    def __str__(self) -> str:
        return f"{self.role} of worker {self.worker}: {self.message}"


@dataclass
class WorkerState:
    """What is known of one worker."""

    peer: Peer | None = None
    ready: bool = False
    services: list[dict[str, Any]] = field(default_factory=list)
    round: int = -1
    ended: int | None = None


class Coordinator:
    def __init__(
        self,
        job: str,
        trainers: Sequence[bool],
        resume: Callable[[], bool],
        on_event: Callable[[dict[str, Any]], None],
        max_restarts: int,
    ) -> None:
        """`trainers[i]` says whether worker i has a trainer; `resume()` whether there is a checkpoint to go on from."""
        self.job, self.trainers, self.resume, self.on_event, self.max_restarts = (
            job,
            trainers,
            resume,
            on_event,
            max_restarts,
        )
        self.workers = [WorkerState() for _ in trainers]
        self.generation = 0
        self.running = False
        self.stopping = False
        self.restarts = 0
        self.result: tuple[int, str] | None = None
        self.server: FrameServer
        self._failures: list[Failure] = []
        self._failed_at = 0.0
        self._gathering_since = self._progress = time.monotonic()
        self._history: list[Failure] = []

    def admit(self, peer: Peer, member: Member) -> None:
        if member.role != "worker" or member.job != self.job or not 0 <= member.index < len(self.workers):
            raise InputError(f"{member} does not belong to job {self.job!r} of {len(self.workers)} workers")
        if self.workers[member.index].peer is not None:
            raise InputError(f"worker {member.index} is already here")
        self.workers[member.index] = WorkerState(peer)
        self._phase(member.index, "starting")

    def lost(self, peer: Peer, reason: str) -> None:
        assert peer.member is not None
        index = peer.member.index
        worker = self.workers[index]
        if worker.peer is not peer or self.result is not None:
            return
        self.workers[index] = WorkerState()
        self._phase(index, "lost")
        if worker.ended != 0:
            self.fail(Failure(index, "supervisor", -9, f"lost ({reason})", worker.round))

    def frame(self, peer: Peer, frame: Frame) -> None:
        assert peer.member is not None
        index = peer.member.index
        worker, note = self.workers[index], frame.json()
        kind = note.get("type")
        if kind == "event":
            self._progress = time.monotonic()
            event = note["event"]
            worker.round = event.get("round", worker.round)
            if event["event"] != "alive" and (index == 0 or event["event"] != "round"):
                self.on_event(event)
        elif kind == "here" and not self.running:
            self._prepare(index)
        if note.get("generation") != self.generation:
            return
        if kind == "ready":
            worker.ready, worker.services = True, note["services"]
            self._phase(index, "ready")
            self._start_if_ready()
        elif kind == "ended":
            self._ended(index, note)

    def _ended(self, index: int, note: dict[str, Any]) -> None:
        worker = self.workers[index]
        if note["code"] == 0 and note["role"] == "trainer":
            worker.ended = 0
            self._phase(index, "done")
            if all(w.ended == 0 for w, trains in zip(self.workers, self.trainers, strict=True) if trains):
                self._finish(0, "")
            return
        self.fail(Failure(index, note["role"], note["code"], note["message"], worker.round))

    def fail(self, failure: Failure) -> None:
        """Note a failure; what follows from it is decided a moment later, when its consequences are known too."""
        log.error("%s (exit code %d)", failure, failure.code)
        if not self._failures:
            self._failed_at = time.monotonic()
        self._failures.append(failure)

    def stop(self) -> None:
        """Have everybody write a checkpoint and end."""
        self.stopping = True
        if self.running:
            self._tell_all({"type": "stop"})
        else:
            self._finish(75, "stopped before training began")

    def tick(self) -> None:
        """What time brings: silent workers, failures to judge, workers that never come."""
        now = time.monotonic()
        for worker in self.workers:
            if worker.peer is not None and now - worker.peer.heard > SILENCE_SECONDS:
                self.server.drop(worker.peer, f"silent for {SILENCE_SECONDS:.0f} s")
        if self.result is None and self._failures:
            first = next((f for f in self._failures if not f.is_consequence), None)
            if first is not None or now - self._failed_at > BLAME_SECONDS:
                self._judge(first or self._failures[0])
        if self.running and not self._failures and now - self._progress > PROGRESS_SECONDS:
            slowest = min(range(len(self.workers)), key=lambda index: self.workers[index].round)
            message = f"no round for {PROGRESS_SECONDS:.0f} s"
            self.fail(Failure(slowest, "trainer", 75, message, self.workers[slowest].round))
        if self.result is None and not self.running and now - self._gathering_since > GATHER_SECONDS:
            missing = [str(i) for i, worker in enumerate(self.workers) if not worker.ready]
            self._finish(75, f"worker {', '.join(missing)} did not come within {GATHER_SECONDS:.0f} s")

    def _judge(self, cause: Failure) -> None:
        stopped = self.stopping and all(f.is_consequence for f in self._failures)
        self._failures = []
        if stopped:
            self._finish(75, cause.message)
            return
        if cause.code == 2:
            self._finish(2, cause.message)
            return
        self._history.append(cause)
        last = self._history[-REPEATS:]
        same = len(last) == REPEATS and len({(f.worker, f.role, f.code, f.round) for f in last}) == 1
        if same and not cause.is_consequence:
            self._finish(cause.code if cause.code > 0 else 1, f"{cause}; it failed {REPEATS} times at the same round")
        elif self.restarts >= self.max_restarts:
            self._finish(cause.code if cause.code > 0 else 1, f"{cause}; gave up after {self.restarts} restarts")
        elif self.stopping:
            self._finish(75, f"stopped while recovering from: {cause}")
        else:
            self._restart(cause)

    def _restart(self, cause: Failure) -> None:
        self.restarts += 1
        self.generation += 1
        self.running = False
        self._gathering_since = time.monotonic()
        self.on_event(
            {"event": "restart", "generation": self.generation, "worker": cause.worker, "cause": str(cause)},
        )
        for index, worker in enumerate(self.workers):
            worker.ready, worker.ended = False, None
            if worker.peer is not None:
                self._prepare(index)

    def _start_if_ready(self) -> None:
        if self.running or not all(worker.ready for worker in self.workers):
            return
        self.running, self._progress = True, time.monotonic()
        services = [service for worker in self.workers for service in worker.services]
        resume = self.resume() or self.generation > 0
        self._tell_all({"type": "start", "generation": self.generation, "services": services, "resume": resume})
        for index in range(len(self.workers)):
            self._phase(index, "training")

    def _prepare(self, index: int) -> None:
        self._tell(index, {"type": "prepare", "generation": self.generation})

    def _finish(self, code: int, message: str) -> None:
        self.result = code, message
        self._tell_all({"type": "finish"})

    def _tell_all(self, note: dict[str, Any]) -> None:
        for index in range(len(self.workers)):
            self._tell(index, note)

    def _tell(self, index: int, note: dict[str, Any]) -> None:
        peer = self.workers[index].peer
        if peer is not None:
            self.server.send(peer, Kind.NOTE, note)

    def _phase(self, index: int, phase: str) -> None:
        self.on_event({"event": "phase", "worker": index, "phase": phase})
