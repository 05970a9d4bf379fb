"""The one that brings workers together: who is there, when a generation starts, what its end means. Holds no model.

Supervisors connect to it and stay connected. It runs in the launcher of a local job, and beside worker 0 in a cluster.

    taking --generation ours--> gathering --all ready--> selecting --checkpoint named--> running --all well--> done
      ^                                                                                   |  \\--stop, input error,
      \\----------------------- a failure, or some leave ---------------------------------/       or no restart left--> ended

Taking and selecting wait for the run directory; nothing else does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from umiak.errors import InputError, ReplacedError, UmiakError
from umiak.rundir.places import Places
from umiak.wire.frames import Frame, Kind
from umiak.wire.hello import Member
from umiak.wire.server import FrameServer, Peer
from umiak.worker.attempt import Asked, RunDirectory
from umiak.worker.failures import RETRY, Failure, History, cause_of
from umiak.worker.patience import Patience
from umiak.worker.roster import Rules, WorkerState

BEAT_SECONDS = 2.0
SILENCE_SECONDS = 10.0
PAUSE_SECONDS = 5.0
BLAME_SECONDS = 1.5
log = logging.getLogger("umiak.worker")


class Coordinator:
    def __init__(
        self,
        job: str,
        trainers: Sequence[bool],
        directory: RunDirectory,
        on_event: Callable[[dict[str, Any]], None],
        rules: Rules,
        generation: int = 0,
        places: Places | None = None,
    ) -> None:
        """`trainers[i]` says whether worker i has a trainer; `generation` is ours already, `places` as they were found."""
        self.job, self.trainers, self.directory, self.on_event, self.rules = job, trainers, directory, on_event, rules
        self.workers = [WorkerState() for _ in trainers]
        self.places = places or Places()
        self.generation = generation
        self.first = True
        """Whether this coordinator has started no training yet."""
        self.running = False
        self.history, self.patience = History(rules.max_restarts), Patience(rules)
        self.leaving: set[int] = set()
        """Workers that were told to end: everybody writes a checkpoint, then these go."""
        self.result: tuple[int, str] | None = None
        self.moving = False
        """Whether the result is only that this coordinator must go: the job goes on with another."""
        self.cause: Failure | None = None
        self.server: FrameServer
        self._failures: list[Failure] = []
        self._failed_at = self._beaten = 0.0
        self._ticked = time.monotonic()
        self.asked = Asked(directory)

    @property
    def restarts(self) -> int:
        """How often it was restarted since the job last got on."""
        return self.history.restarts

    def admit(self, peer: Peer, member: Member) -> None:
        if member.role != "worker" or member.job != self.job or not 0 <= member.index < len(self.workers):
            raise InputError(f"{member} does not belong to job {self.job!r} of {len(self.workers)} workers")
        self.places.take(member.index, member.incarnation)
        self.directory.record(self.places)
        before = self.workers[member.index].peer
        if before is not None and before.member is not None and before.member.incarnation == member.incarnation:
            self.server.drop(before, f"connected again from {peer.name}")
        elif before is not None:
            # A pod that was given up elsewhere may still run. The newer one counts, and the older must not come back.
            self.server.dismiss(before, ReplacedError(f"another took the place of worker {member.index}"))
            self.lost(before, f"replaced from {peer.name}")
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
        if worker.peer is not peer:
            return
        kind = note.get("type")
        if self.result is not None:
            # While this coordinator moves, nobody who is still here is told to end: they will find the next one.
            if kind != "beat" and not self.moving:
                self._tell(index, self._farewell())
        elif kind == "event":
            self._event(index, note["event"], note.get("generation") == self.generation)
        elif kind == "beat":
            self._preparing(index, note)
        elif kind == "here" and not self.running and not self.asked.is_taking:
            self._prepare(index)
        elif kind == "leaving":
            self._leave(index)
        elif kind == "failed":
            self.fail(Failure(index, "pod", note["code"], note["message"], -1, note.get("log", "")))
        elif note.get("generation") == self.generation:
            self._of_generation(index, kind, note)

    def _of_generation(self, index: int, kind: Any, note: dict[str, Any]) -> None:
        worker = self.workers[index]
        if kind == "ready":
            worker.ready, worker.services = True, note["services"]
            self._phase(index, "ready")
            self._select_if_ready()
        elif kind == "ended":
            self._ended(index, note)

    def _event(self, index: int, event: dict[str, Any], current: bool) -> None:
        worker = self.workers[index]
        self.patience.progress = time.monotonic()
        if current:
            worker.round = event.get("round", worker.round)
        if event["event"] == "checkpoint":
            self.history.committed(event["round"])
        if event["event"] != "alive" and (index == 0 or event["event"] != "round"):
            self.on_event(event)

    def _preparing(self, index: int, note: dict[str, Any]) -> None:
        """Whoever gets on with its preparations is waited for, however long they take."""
        worker = self.workers[index]
        phase, done = note.get("phase", worker.phase), note.get("done", 0)
        if done > worker.done:
            worker.done, self.patience.gathering_since = done, time.monotonic()
        if phase != worker.phase:
            self._phase(index, phase)

    def _ended(self, index: int, note: dict[str, Any]) -> None:
        worker = self.workers[index]
        if note["role"] == "trainer":
            worker.ended = note["code"]
        if note["role"] == "trainer" and worker.ended == 0:
            self._phase(index, "done")
            if all(w.ended == 0 for w, trains in zip(self.workers, self.trainers, strict=True) if trains):
                self.asked.finish()
            return
        told = note["role"], note["code"], note["message"]
        self.fail(Failure(index, *told, worker.round, note.get("log", ""), note["kind"]))

    def fail(self, failure: Failure) -> None:
        """Note a failure; what follows from it is decided a moment later, when its consequences are known too."""
        log.error("%s (exit code %d)", failure, failure.code)
        if not self._failures:
            self._failed_at = time.monotonic()
        self._failures.append(failure)

    @property
    def stopping(self) -> bool:
        return len(self.leaving) == len(self.workers)

    def stop(self) -> None:
        """Have everybody write a checkpoint and end."""
        self.leaving = set(range(len(self.workers)))
        if self.running:
            self._tell_all({"type": "stop"})
        else:
            self._finish(RETRY, "stopped before training began")

    def _leave(self, index: int) -> None:
        """One worker must go: have a checkpoint written first, if there is anything to save."""
        self._phase(index, "leaving")
        self.leaving.add(index)
        if self.running:
            self._tell_all({"type": "stop"})
        else:
            self._release(f"worker {index} was told to end before training began")

    def tick(self) -> None:
        """What time brings: heartbeats, silent workers, failures to judge, workers that never come."""
        now = time.monotonic()
        if now - self._ticked > PAUSE_SECONDS:
            # This process was stopped, so perhaps all were: nobody is to blame for what was not said meanwhile.
            self.patience.progress += now - self._ticked
            for peer in [worker.peer for worker in self.workers if worker.peer is not None]:
                peer.heard = now
        self._ticked = now
        if now - self._beaten > BEAT_SECONDS:
            self._beaten = now
            self._tell_all({"type": "beat"})
        for worker in self.workers:
            if worker.peer is not None and now - worker.peer.heard > SILENCE_SECONDS:
                self.server.drop(worker.peer, f"silent for {SILENCE_SECONDS:.0f} s")
        if self.result is None:
            self._hear_directory()
        if self.result is not None or self.asked.is_finishing:
            return
        if self._failures:
            self._consider(now)
        elif self.running:
            self._watch_progress(now)
        else:
            self._watch_gathering(now)

    def _consider(self, now: float) -> None:
        first = cause_of(self._failures)
        waits = self.patience.has_left(now)
        if first is None and self.leaving and waits and self.running:
            # All stop together, but trainer 0 has the checkpoint to commit and is the last.
            if any(w.peer and w.ended is None for w, trains in zip(self.workers, self.trainers, strict=True) if trains):
                return
            words = next((f.message for f in self._failures if f.worker == 0), self._failures[0].message)
            self._failures = []
            if self.stopping:
                self._finish(RETRY, words)
            else:
                self._regroup(words, None)
        elif first is not None or now - self._failed_at > BLAME_SECONDS:
            self._judge(first or self._failures[0])

    def _judge(self, cause: Failure) -> None:
        self._failures = []
        leaves = cause.worker in self.leaving and cause.role == "supervisor"
        if not leaves and (end := self.history.add(cause)) is not None:
            self._finish(*end, cause)
            return
        if self.stopping:
            self._finish(RETRY, f"stopped while recovering from: {cause}", cause)
        else:
            self._regroup(str(cause), cause)

    def _regroup(self, words: str, cause: Failure | None) -> None:
        """Begin the next generation, without those who leave."""
        who = cause.worker if cause else min(self.leaving)
        words = words if cause else f"worker {who} was told to end; {words}"
        self.running = False
        self.asked.forget_selection()
        self.generation += not self.asked.is_taking
        self.on_event({"event": "restart", "generation": self.generation, "worker": who, "cause": words})
        self._release(words)
        if self.result is not None:
            return
        for worker in self.workers:
            worker.begin_again()
        self.asked.take(self.generation)
        self._hear_directory()

    def _hear_directory(self) -> None:
        """Act on what the run directory has answered. A job that cannot use it ends, with nothing changed there."""
        try:
            if self.asked.taken():
                self.patience.gathering_since = time.monotonic()
                for index in range(len(self.workers)):
                    self._prepare(index)
            if (selected := self.asked.selected()) is not None:
                self._start_if_ready(*selected)
            if self.asked.finished():
                self._finish(0, "")
        except ReplacedError:
            raise
        except UmiakError as error:
            self.finish(error.exit_code, str(error))

    def _release(self, words: str) -> None:
        """Let those go who were told to. With worker 0 goes the coordinator: the others wait for another."""
        leaving, self.leaving = self.leaving, set()
        self.patience.gathering_since = time.monotonic()
        if 0 in leaving or len(leaving) == len(self.workers):
            self.result, self.moving = (RETRY, words), True
        for index in leaving:
            self._tell(index, {"type": "finish", "code": RETRY, "message": words, "cause": None})
            self.workers[index] = WorkerState()

    def _watch_progress(self, now: float) -> None:
        if self.patience.wants_stacks(now):
            self._tell_all({"type": "dump"})
        elif (failure := self.patience.stall(now, self.workers)) is not None:
            if self.rules.stall_ends:
                self._finish(RETRY, str(failure), failure)
            else:
                self.fail(failure)

    def _watch_gathering(self, now: float) -> None:
        if self.asked.is_taking or self.asked.is_selecting:
            seconds = self.rules.wait_seconds
            if now - self.patience.gathering_since > seconds:
                self.finish(RETRY, f"the output directory did not answer within {seconds:.0f} s")
        elif (failure := self.patience.absence(now, self.workers)) is not None:
            self._finish(RETRY, failure.message, failure)
        elif text := self.patience.reminder(now, self.workers):
            self.on_event({"event": "note", "text": text})
            self._tell_all({"type": "waiting", "text": text})

    def _select_if_ready(self) -> None:
        if not self.running and not self.asked.is_selecting and all(worker.ready for worker in self.workers):
            self.patience.gathering_since = time.monotonic()
            self.asked.select(self.generation)

    def _start_if_ready(self, checkpoint: str | None) -> None:
        """Start all trainers from the same checkpoint, unless one was lost while it was looked for."""
        if not all(worker.ready for worker in self.workers):
            return
        self.running, self.patience.progress = True, time.monotonic()
        services = [{**each, "worker": index} for index, worker in enumerate(self.workers) for each in worker.services]
        start = {"type": "start", "generation": self.generation, "services": services, "checkpoint": checkpoint}
        self._tell_all({**start, "first": self.first})
        self.first = False
        for index in range(len(self.workers)):
            self._phase(index, "training")

    def _prepare(self, index: int) -> None:
        self._tell(index, {"type": "prepare", "generation": self.generation})

    def finish(self, code: int, message: str) -> None:
        """End the job by something that is no worker's fault: whoever comes is told why."""
        self._finish(code, message, Failure(0, "pod", code, message, -1) if code else None)

    def _finish(self, code: int, message: str, cause: Failure | None = None) -> None:
        self.result, self.cause = (code, message), cause
        self._tell_all(self._farewell())

    def _farewell(self) -> dict[str, Any]:
        assert self.result is not None
        code, message = self.result
        return {"type": "finish", "code": code, "message": message, "cause": self.cause and self.cause.to_json()}

    def _tell_all(self, note: dict[str, Any]) -> None:
        for index in range(len(self.workers)):
            self._tell(index, note)

    def _tell(self, index: int, note: dict[str, Any]) -> None:
        peer = self.workers[index].peer
        if peer is not None:
            self.server.send(peer, Kind.NOTE, note)

    def _phase(self, index: int, phase: str) -> None:
        self.workers[index].phase = phase
        self.on_event({"event": "phase", "worker": index, "phase": phase})
