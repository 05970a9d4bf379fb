"""The coordinator in worker 0's pod, in a process of its own: it lives on when that worker's processes end."""

from __future__ import annotations

import copy
import faulthandler
import itertools
import json
import logging
import os
import resource
import select
import signal
import socket
import time

from umiak import logs
from umiak.errors import ReplacedError, UmiakError, describe, described
from umiak.messages import failure
from umiak.messages.events import Event, Notice, Round, Snapshot
from umiak.pod import staging
from umiak.pod.keeper import Keeper
from umiak.pod.report import emit
from umiak.pod.settings import PodSettings
from umiak.rundir import layout, lease
from umiak.rundir.eventlog import EventLog
from umiak.sinks.feed import Feed
from umiak.sinks.target import targets
from umiak.wire import credentials
from umiak.wire.address import Address, listen
from umiak.wire.server import FrameServer
from umiak.worker.coordinator import Coordinator
from umiak.worker.roster import Rules

ROUND_SECONDS = 2.0
"""At most one event of a round in so many seconds."""
STARTS = 5
"""So often it is started without progress between."""
LINGER_SECONDS = 20.0
MOVE_SECONDS = 1.0
RELEASE_SECONDS = 5.0
ABORT_SECONDS = 2.0
NOTHING_CHANGES = os.WNOHANG | os.WNOWAIT
log = logging.getLogger("umiak.worker")


class Lead:
    """The process as its parent sees it: started, watched, and started again should it be killed."""

    def __init__(self, environment: PodSettings, incarnation: str) -> None:
        self.environment, self.incarnation = environment, incarnation
        self.pid = 0
        self.error: UmiakError | None = None
        """Why it ended, if it could not do its work and another one could not either."""
        self._starts = 0
        self._lost_at = -1
        self._start()

    def _start(self) -> None:
        self._starts += 1
        lifeline, self._lifeline = os.pipe()
        self._last_words, last_words = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _main(self.environment, self.incarnation, lifeline, last_words)
        os.close(lifeline)
        os.close(last_words)

    def watch(self, round_id: int, committed: int = -1) -> None:
        """Start it again if it was killed, or ended while somebody still waits for its word.

        It may be lost any number of times as long as checkpoints are `committed` past the round where it was lost last.
        """
        if committed > self._lost_at:
            self._starts = min(self._starts, 1)
        if not self.pid or not (ended := os.waitpid(self.pid, os.WNOHANG))[0]:
            return
        with os.fdopen(self._last_words, "rb") as words:
            said = words.read()
        os.close(self._lifeline)
        self.pid, code = 0, os.waitstatus_to_exitcode(ended[1])
        if code > 0 or self._starts == STARTS:
            self.error = described(json.loads(said)) if said else UmiakError("the coordinator failed: job.log says why")
            return
        log.error("the coordinator ended (%s); starting another", f"signal {-code}" if code else "its work was done")
        self._lost_at = max(self._lost_at, round_id)
        self._start()

    def give_up(self) -> None:
        """It is there and does not answer: have it say where it is and end, for another to be started."""
        if self.pid:
            os.kill(self.pid, signal.SIGABRT)
            deadline = time.monotonic() + ABORT_SECONDS
            while time.monotonic() < deadline and os.waitid(os.P_PID, self.pid, os.WEXITED | NOTHING_CHANGES) is None:
                time.sleep(0.05)
            # One that was stopped does not hear the first.
            os.kill(self.pid, signal.SIGKILL)

    def end(self) -> None:
        """Have it end at once: this pod goes before the job has a result."""
        if self.pid:
            os.close(self._lifeline)

    def wait(self, seconds: float) -> None:
        """Let it end by itself, then make it."""
        deadline = time.monotonic() + seconds
        while self.pid and time.monotonic() < deadline:
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                self.pid = 0
            else:
                time.sleep(0.05)
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def _main(environment: PodSettings, incarnation: str, lifeline: int, last_words: int) -> None:
    """Never returns."""
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        _let_go({lifeline, last_words})
        faulthandler.enable(file=2)
        logs.setup(environment.out / layout.JOB_LOG, queued=True)
        logs.echo(os.fdopen(os.dup(1), "w", buffering=1))
        coordinate(environment, incarnation, lifeline)
        code = 0
    except UmiakError as error:
        log.error("%s", error)
        code = error.exit_code
        os.write(last_words, json.dumps(describe(error)).encode())
    except BaseException:
        log.exception("the coordinator failed")
    finally:
        logs.flush()
        os._exit(code)


def _let_go(kept: set[int]) -> None:
    """Close what belongs to the parent: others must see their end closed when the parent is gone, whoever is left."""
    logging.getLogger("umiak").handlers.clear()
    bounds = [2, *sorted(kept), resource.getrlimit(resource.RLIMIT_NOFILE)[0]]
    for below, above in itertools.pairwise(bounds):
        os.closerange(below + 1, above)


def coordinate(environment: PodSettings, incarnation: str, lifeline: int) -> None:
    """Bring the job to its end, or to where another coordinator takes over."""
    rules = Rules(environment.settings.max_restarts, environment.wait_seconds, stall_ends=True)
    keeper = Keeper(lambda: _take(environment, incarnation))
    while not keeper.leased.done():
        if select.select([lifeline], [], [], 0.1)[0]:
            return
    refusal, ours = keeper.leased.exception(), None
    if refusal is None:
        ours = keeper.leased.result()
    elif isinstance(refusal, ReplacedError) or not isinstance(refusal, UmiakError):
        raise refusal
    generation, places = (ours.generation, copy.deepcopy(ours.entry.places)) if ours else (0, None)
    told = _Events(EventLog(environment.out), _sinks(environment))
    coordinator = Coordinator(environment.job, [True] * environment.workers, keeper, told, rules, generation, places)
    tls = credentials.server_context(credentials.of_worker(environment.credentials, 0))
    host = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
    listener = listen(Address(host, Address.parse(environment.coordinator).port))
    server = coordinator.server = FrameServer([listener], coordinator, environment.secret.encode(), tls)
    alone: list[bool] = []
    server.watch(lifeline, lambda: alone.append(True))
    if refusal is not None:
        coordinator.finish(refusal.exit_code, str(refusal))
    elif ours is not None and ours.done:
        coordinator.finish(0, "")
    while coordinator.result is None and not alone:
        server.poll(0.1)
        coordinator.tick()
        keeper.check()
    _linger(coordinator, server, alone)
    if ours is not None:
        keeper.release(RELEASE_SECONDS)
    server.close()
    if coordinator.result is not None and coordinator.result[0] and not coordinator.moving:
        told.write(failure.told(*coordinator.result, coordinator.cause))
    told.close(coordinator.result)


def _take(environment: PodSettings, incarnation: str) -> lease.Lease:
    taken = lease.take(environment.settings, environment.uid, incarnation)
    if environment.archive is not None:
        staging.keep_lock(environment.archive, environment.out)
    return taken


def _linger(coordinator: Coordinator, server: FrameServer, alone: list[bool]) -> None:
    """Stay until all have heard the result; those who come late hear it too, or read in job.json that all is done."""
    deadline = time.monotonic() + (MOVE_SECONDS if coordinator.moving else LINGER_SECONDS)
    seen: set[int] = set()
    while time.monotonic() < deadline and not alone:
        here = {index for index, worker in enumerate(coordinator.workers) if worker.peer in server.peers}
        seen |= here
        done = coordinator.result is not None and coordinator.result[0] == 0
        if not here and seen and (done or len(seen) == len(coordinator.workers)):
            return
        server.poll(0.1)
        coordinator.tick()


def _sinks(environment: PodSettings) -> Feed:
    """Where --log-to says. What is wrong with that ends no training."""
    try:
        found = targets(environment.settings.log_to)
    except UmiakError as error:
        emit(Notice(f"warning: {error}; the job's image or its requirements must have it"))
        found = []
    return Feed(found, environment.out, lambda text: emit(Notice(text)))


class _Events:
    """Events of a job on the pod's standard output, and in its directory."""

    def __init__(self, written: EventLog, sinks: Feed) -> None:
        self._written, self._sinks, self._snapshot = written, sinks, ""
        self._round_at = 0.0

    def close(self, result: tuple[int, str] | None) -> None:
        """Without a result, another coordinator continues."""
        self._sinks.close("stopped" if result is None else "failed" if result[0] else "done", self._snapshot)
        self._written.close()

    def write(self, event: Event) -> None:
        """In the directory alone: every pod prints its own end."""
        self._written(event)

    def __call__(self, event: Event) -> None:
        self._written(event)
        if isinstance(event, Snapshot):
            self._snapshot = event.path
        if isinstance(event, Round):
            if time.monotonic() - self._round_at < ROUND_SECONDS:
                return
            self._round_at = time.monotonic()
        emit(event)
