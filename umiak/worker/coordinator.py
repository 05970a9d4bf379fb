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
from dataclasses import replace

from umiak.errors import InputError, ReplacedError, UmiakError
from umiak.messages.control import (
    Beat,
    Busy,
    CannotPrepare,
    DumpStacks,
    Finish,
    Here,
    Leaving,
    Order,
    Prepare,
    ProcessEnded,
    Ready,
    Report,
    Reported,
    StartTrainer,
    Stop,
    Waiting,
    decode_report,
    encode_order,
)
from umiak.messages.events import Alive, Checkpoint, Event, Notice, Phase, Processes, Restart, Round, round_of
from umiak.messages.failure import RETRY, Failure
from umiak.rundir.places import Places
from umiak.wire.frames import Frame, Kind
from umiak.wire.hello import Member
from umiak.wire.server import FrameServer, Peer
from umiak.worker.attempt import Asked, RunDirectory
from umiak.worker.failures import History, cause_of
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
        on_event: Callable[[Event], None],
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
        """Whether the result is only that this coordinator must go: the job continues with another."""
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
            self.server.dismiss(before, ReplacedError(f"another process took the place of worker {member.index}"))
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
        worker = self.workers[index]
        if worker.peer is not peer:
            return
        report, generation = decode_report(frame.json())
        if self.result is not None:
            # While this coordinator moves, nobody who is still here is told to end: they will find the next one.
            if not isinstance(report, Busy) and not self.moving:
                self._tell(index, self._farewell())
        else:
            self._hear(index, report, generation == self.generation)

    def _hear(self, index: int, report: Report, current: bool) -> None:
        """Act on what a worker says; `current`: of the generation that is under way."""
        match report:
            case Reported():
                self._event(index, report.event, current)
            case Busy():
                self._preparing(index, report)
            case Here() if not self.running and not self.asked.is_taking:
                self._prepare(index)
            case Leaving():
                self._leave(index)
            case CannotPrepare():
                self.fail(Failure(index, "pod", report.code, report.message, -1))
            case Ready() if current:
                self.workers[index].ready, self.workers[index].services = True, report.services
                self._phase(index, "ready")
                self._select_if_ready()
            case ProcessEnded() if current:
                self._ended(index, report)

    def _event(self, index: int, event: Event, current: bool) -> None:
        worker, number = self.workers[index], round_of(event)
        if isinstance(event, Processes):
            # Its supervisor looks at them whether they get on or not.
            self.on_event(event)
            return
        self.patience.progress = time.monotonic()
        if current and number is not None:
            worker.round = number
        if isinstance(event, Checkpoint):
            self.history.committed(event.round)
        if not isinstance(event, Alive) and (index == 0 or not isinstance(event, Round)):
            self.on_event(event)

    def _preparing(self, index: int, report: Busy) -> None:
        """Whoever gets on with its preparations is waited for, however long they take."""
        worker = self.workers[index]
        if (report.done or 0) > worker.done:
            worker.done, self.patience.gathering_since = report.done or 0, time.monotonic()
        if report.phase is not None and report.phase != worker.phase:
            self._phase(index, report.phase)

    def _ended(self, index: int, ended: ProcessEnded) -> None:
        worker = self.workers[index]
        if ended.role == "trainer":
            worker.ended = ended.code
        if ended.role == "trainer" and worker.ended == 0:
            self._phase(index, "done")
            if all(w.ended == 0 for w, trains in zip(self.workers, self.trainers, strict=True) if trains):
                self.asked.finish()
            return
        self.fail(Failure(index, ended.role, ended.code, ended.message, worker.round, ended.log, ended.kind))

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
            self._tell_all(Stop())
        else:
            self._finish(RETRY, "stopped before training began")

    def _leave(self, index: int) -> None:
        """One worker must go: have a checkpoint written first, if there is anything to save."""
        self._phase(index, "leaving")
        self.leaving.add(index)
        if self.running:
            self._tell_all(Stop())
        else:
            self._release(f"worker {index} was told to stop before training began")

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
            self._tell_all(Beat())
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
        words = words if cause else f"worker {who} was told to stop; {words}"
        self.running = False
        self.asked.forget_selection()
        self.generation += not self.asked.is_taking
        self.on_event(Restart(self.generation, who, words))
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
            self._tell(index, Finish(RETRY, words, None))
            self.workers[index] = WorkerState()

    def _watch_progress(self, now: float) -> None:
        if self.patience.wants_stacks(now):
            self._tell_all(DumpStacks())
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
            self.on_event(Notice(text))
            self._tell_all(Waiting(text))

    def _select_if_ready(self) -> None:
        if not self.running and not self.asked.is_selecting and all(worker.ready for worker in self.workers):
            self.patience.gathering_since = time.monotonic()
            self.asked.select(self.generation)

    def _start_if_ready(self, checkpoint: str | None) -> None:
        """Start all trainers from the same checkpoint, unless one was lost while it was looked for."""
        if not all(worker.ready for worker in self.workers):
            return
        self.running, self.patience.progress = True, time.monotonic()
        services = tuple(replace(each, worker=i) for i, worker in enumerate(self.workers) for each in worker.services)
        self._tell_all(StartTrainer(self.generation, services, checkpoint, self.first))
        self.first = False
        for index in range(len(self.workers)):
            self._phase(index, "training")

    def _prepare(self, index: int) -> None:
        self._tell(index, Prepare(self.generation))

    def finish(self, code: int, message: str) -> None:
        """End the job by something that is no worker's fault: whoever comes is told why."""
        self._finish(code, message, Failure(0, "pod", code, message, -1) if code else None)

    def _finish(self, code: int, message: str, cause: Failure | None = None) -> None:
        self.result, self.cause = (code, message), cause
        self._tell_all(self._farewell())

    def _farewell(self) -> Finish:
        assert self.result is not None
        return Finish(*self.result, self.cause)

    def _tell_all(self, order: Order) -> None:
        for index in range(len(self.workers)):
            self._tell(index, order)

    def _tell(self, index: int, order: Order) -> None:
        peer = self.workers[index].peer
        if peer is not None:
            self.server.send(peer, Kind.CONTROL, encode_order(order))

    def _phase(self, index: int, phase: str) -> None:
        self.workers[index].phase = phase
        self.on_event(Phase(index, phase))
