"""The coordinator in worker 0's pod, in a process of its own: it lives on when that worker's processes end."""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import resource
import signal
import socket
import time
from typing import Any

from umiak import logs
from umiak.errors import UmiakError
from umiak.pod import claim
from umiak.pod.environment import Environment
from umiak.pod.report import emit
from umiak.trainer import checkpoint
from umiak.wire import credentials
from umiak.wire.address import Address, listen
from umiak.wire.server import FrameServer
from umiak.worker.coordinator import Coordinator, Rules

ROUND_SECONDS = 2.0
"""At most one event of a round in so many seconds."""
STARTS = 5
LINGER_SECONDS = 20.0
MOVE_SECONDS = 1.0
log = logging.getLogger("umiak.worker")


class Lead:
    """The process as its parent sees it: started, watched, and started again should it be killed."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.pid = 0
        self.code = 0
        """The exit code of one that ended by itself because it could not do its work."""
        self._starts = 0
        self._start()

    def _start(self) -> None:
        self._starts += 1
        lifeline, self._lifeline = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._lifeline)
            _main(self.environment, lifeline)
        os.close(lifeline)

    def watch(self) -> None:
        """Start it again if it was killed, or ended while somebody still waits for its word."""
        if not self.pid or not (ended := os.waitpid(self.pid, os.WNOHANG))[0]:
            return
        os.close(self._lifeline)
        self.pid, code = 0, os.waitstatus_to_exitcode(ended[1])
        if code > 0 or self._starts == STARTS:
            self.code = max(code, 1)
            return
        log.error("the coordinator ended (%s); starting another", f"signal {-code}" if code else "its work was done")
        self._start()

    def give_up(self) -> None:
        """It is there and does not answer: have it say where it is, and start another."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGABRT)

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


def _main(environment: Environment, lifeline: int) -> None:
    """Never returns."""
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        _let_go(lifeline)
        faulthandler.enable(file=2)
        logs.setup(environment.out / "job.log")
        logs.echo(os.fdopen(os.dup(1), "w", buffering=1))
        coordinate(environment, lifeline)
        code = 0
    except UmiakError as error:
        log.error("%s", error)
        code = error.exit_code
    except BaseException:
        log.exception("the coordinator failed")
    finally:
        os._exit(code)


def _let_go(lifeline: int) -> None:
    """Close what belongs to the parent: others must see their end closed when the parent is gone, whoever is left."""
    logging.getLogger("umiak").handlers.clear()
    os.closerange(3, lifeline)
    os.closerange(lifeline + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def coordinate(environment: Environment, lifeline: int) -> None:
    """Bring the job to its end, or to where another coordinator takes over."""
    out, rules = environment.out, Rules(environment.settings.max_restarts, environment.wait_seconds, stall_ends=True)
    events = _Events()
    refusal: UmiakError | None = None
    try:
        ours: claim.Claim | None = claim.take(environment.settings, environment.uid)
    except UmiakError as error:
        ours, refusal = None, error
    events.claim = ours
    coordinator = Coordinator(
        environment.job,
        [True] * environment.workers,
        lambda: checkpoint.select(out) is not None,
        events,
        rules,
        ours.generation if ours else 0,
    )
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
        if ours is not None:
            ours.look()
    _linger(coordinator, server, alone)
    if ours is not None:
        ours.note(released=True)
    server.close()


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


class _Events:
    """Events of a job on the pod's standard output; what must outlive this process is written down first."""

    def __init__(self) -> None:
        self.claim: claim.Claim | None = None
        self._round_at = 0.0

    def __call__(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "restart":
            self._write_down(generation=event["generation"])
        elif kind == "end":
            if event["code"] == 0:
                self._write_down(done=True)
            return
        elif kind == "round":
            if time.monotonic() - self._round_at < ROUND_SECONDS:
                return
            self._round_at = time.monotonic()
        emit(event)

    def _write_down(self, generation: int | None = None, done: bool = False) -> None:
        try:
            if self.claim is not None:
                self.claim.note(generation=generation, done=done)
        except UmiakError as error:
            # It matters only if this process is lost too; a disk that is full ends the job at the next checkpoint.
            log.warning("%s", error)
