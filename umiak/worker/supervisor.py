"""One worker: starts its parameter server and its trainer as the coordinator says, watches them, ends them.

Its process has imported torch and loaded the config, and forks its trainer; its server is a fresh process that never sees
torch. When the coordinator is gone, both end. A local job is then over; a pod waits for the coordinator to come back.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from umiak.contract import reasons
from umiak.errors import UmiakError
from umiak.messages import startup
from umiak.messages.control import (
    Busy,
    DumpStacks,
    Finish,
    Here,
    Order,
    Prepare,
    ProcessEnded,
    Ready,
    Report,
    Reported,
    ServiceAddress,
    StartTrainer,
    Stop,
    Waiting,
    encode_report,
)
from umiak.messages.events import Checkpoint, Event, Notice, Work, round_of
from umiak.pserver.process import ServerOptions
from umiak.rundir import layout
from umiak.spec.settings import Settings
from umiak.system import memory_kills
from umiak.wire.address import Address
from umiak.wire.frames import Channel, Kind
from umiak.worker.background import in_background
from umiak.worker.child import TrainerChild
from umiak.worker.link import SILENCE_SECONDS, Silent, arrived, join, order_of, pending
from umiak.worker.usage import Usage

ForkTrainer = Callable[[StartTrainer, bool, list[int]], TrainerChild]
"""Forks a trainer, given the coordinator's order, whether it replaces a lost one, and the descriptors the child must close."""

BEAT_SECONDS = 2.0
PAUSE_SECONDS = 5.0
TICK_SECONDS = 0.25
JOIN_SECONDS = 30.0
LOG_BYTES = 1500
TAIL_SECONDS = 3.0
"""So long the last lines of a log are waited for: the volume may hang, and the failure must be told."""
ANY_HOST = "*"
log = logging.getLogger("umiak.worker")


@dataclass(frozen=True)
class WorkerPlan:
    """What one worker runs. `addresses` are its services.

    The host `*` in an address stands for the address under which this worker reaches the coordinator.
    """

    index: int
    workers: int
    job: str
    token: str
    coordinator: str
    trainers: int
    trainer: int | None
    addresses: tuple[ServiceAddress, ...]
    tls: str | None
    insecure: bool
    directory: Path
    log_period_server: int
    replacements: int
    """How often a lost trainer may be replaced while the others continue: asynchronous mode only."""
    beside: tuple[str, ...] = ()
    """Unix sockets of the same services, for this worker's own trainer."""
    echo: bool = False
    """Whether the server's log lines go to standard error too."""
    incarnation: str = ""
    """Random: tells the process that has this worker's place from those that had it before."""
    sources: tuple[str, ...] = ()
    """What a new run begins with, which its server may read beside what is in the output directory."""


def sources_of(settings: Settings) -> tuple[str, ...]:
    """Where a run finds the model or checkpoint it begins with."""
    return tuple(str(path.absolute()) for path in (settings.init_from, settings.init_model_path) if path is not None)


class Supervisor:
    def __init__(self, plan: WorkerPlan, start_trainer: ForkTrainer, channel: Channel) -> None:
        self.plan, self._start_trainer, self.channel = plan, start_trainer, channel
        self.generation = -1
        self.server: subprocess.Popen[bytes] | None = None
        self.trainer: TrainerChild | None = None
        self._told: set[str] = set()
        self._preparing = False
        """Whether a new server is to be started once nothing of the generation before is left."""
        self._endings: list[tuple[ProcessEnded, Future[str], float]] = []
        """Processes that ended, the last lines of their logs, and until when those are waited for."""
        self.round = self.committed = -1
        """The last round that its trainer reported, and the last that is in a checkpoint."""
        self._order: StartTrainer | None = None
        """What the running trainer was started with."""
        self.replaced = 0
        self._kills = memory_kills()
        self._usage = Usage(plan.index)
        self._local = Address.parse(plan.coordinator).is_unix
        self.addresses = tuple(replace(each, address=_own(each.address, channel)) for each in plan.addresses)

    def run(self, attend: Callable[[Supervisor], None] = lambda _: None) -> Finish:
        """Obey until told to finish, and return that order. A RetryError says that the coordinator is gone.

        `attend` is called every now and then.
        """
        beat = heard = looked = time.monotonic()
        try:
            self.say(Here())
            while True:
                watched: list[Any] = [self.channel.sock]
                if self.trainer is not None and not self.trainer.closed and not self._preparing:
                    watched.append(self.trainer.reports)
                select.select(watched, [], [], 0 if pending(self.channel) else TICK_SECONDS)
                while (frame := arrived(self.channel)) is not None:
                    heard = time.monotonic()
                    order = order_of(frame)
                    if isinstance(order, Finish):
                        return order
                    self._obey(order)
                if self.trainer is not None and not self._preparing:
                    for event in self.trainer.events():
                        self._pass_on(event)
                self._look_after()
                self._tell_endings()
                now = time.monotonic()
                if now - looked > PAUSE_SECONDS:
                    heard = now  # this process was stopped, so perhaps all were
                looked = now
                if now - beat > BEAT_SECONDS:
                    beat = now
                    self.say(Busy())
                    if used := self._usage.look(self._processes()):
                        self.say(Reported(used))
                # A local launcher may be suspended by its terminal; one on another machine that is silent is gone.
                if not self._local and now - heard > SILENCE_SECONDS:
                    raise Silent(f"lost {self.channel.peer}: silent for {SILENCE_SECONDS:.0f} s")
                attend(self)
        finally:
            self._kill()
            self._gone(wait=True)

    def _pass_on(self, event: Event) -> None:
        number = round_of(event)
        self.round = self.round if number is None else number
        if isinstance(event, Checkpoint):
            self.committed = event.round
        if isinstance(event, Work):
            event = replace(event, worker=self.plan.index)
        self.say(Reported(event))

    def _obey(self, order: Order) -> None:
        match order:
            case Prepare():
                self._kill()
                self.generation, self._told, self._endings, self._preparing = order.generation, set(), [], True
                self._look_after()
            case StartTrainer() if order.generation == self.generation and self.plan.trainer is not None:
                beside = dict(zip((each.address for each in self.addresses), self.plan.beside, strict=False))
                services = [replace(each, address=beside.get(each.address, each.address)) for each in order.services]
                self._order, self.replaced = replace(order, services=tuple(services)), 0
                self.trainer = self._start_trainer(self._order, False, self._descriptors())
            case Stop() if self.trainer is not None:
                self.trainer.stop()
            case DumpStacks():
                self._dump()
            case Waiting():
                log.info("%s", order.text)

    def _processes(self) -> dict[str, int]:
        running = {"trainer": self.trainer, "server": self.server}
        return {role: each.pid for role, each in running.items() if each is not None} | {"supervisor": os.getpid()}

    def _dump(self) -> None:
        """Have both processes write into their logs where they are."""
        for pid in [each.pid for each in (self.trainer, self.server) if each is not None]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGUSR1)

    def _descriptors(self) -> list[int]:
        """What a child must not keep open: others notice this process's death by their end being closed."""
        pipes = (self.server.stdin, self.server.stdout) if self.server else ()
        return [self.channel.sock.fileno(), *(pipe.fileno() for pipe in pipes if pipe)]

    def _start_server(self) -> None:
        """Start this worker's services for a generation; the coordinator is told once they listen."""
        plan = self.plan
        if not plan.addresses:
            self._ready()
            return
        options = ServerOptions(
            job=plan.job,
            generation=self.generation,
            trainers=plan.trainers,
            addresses=[each.address for each in self.addresses],
            root=str(plan.directory.parent),
            sources=plan.sources,
            beside=plan.beside,
            token=plan.token,
            tls=plan.tls,
            insecure=plan.insecure,
            log_file=str(plan.directory / layout.SERVER_LOG),
            log_period=plan.log_period_server,
            echo=plan.echo,
        )
        self.server = subprocess.Popen(
            [sys.executable, "-m", "umiak.worker.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if plan.echo else subprocess.DEVNULL,
        )
        assert self.server.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.server.stdin.write(json.dumps(options.to_json()).encode() + b"\n")
            self.server.stdin.flush()

    def _ready(self) -> None:
        self._told.add("ready")
        self.say(Ready(self.addresses))

    def _look_after(self) -> None:
        """Hear what the server says, and notice processes that have ended."""
        if self._preparing:
            if self._gone():
                self._preparing = False
                self._start_server()
            return
        server = self.server
        if server is not None and not self._told & {"ready", "pserver"} and (answer := _answer(server)):
            if isinstance(answer, startup.Listening):
                self._ready()
            else:
                self._ended("pserver", answer.exit_code, str(answer))
        if server is not None and server.poll() is not None:
            self._ended("pserver", server.returncode, *self._describe(server.returncode))
        if self.trainer is not None and (ended := self.trainer.poll()) is not None:
            code, message, kind = ended
            if code < 0 and self.replaced < self.plan.replacements:
                self._replace(self._describe(code)[0])
            elif message:
                self._ended("trainer", code, message, kind)
            else:
                self._ended("trainer", code, *self._describe(code))

    def _replace(self, cause: str) -> None:
        """Start another trainer in the place of a lost one; the servers know whether the others can wait for it."""
        assert self.trainer is not None and self._order is not None
        self.trainer.gone(wait=True)
        self.replaced += 1
        text = f"the trainer of worker {self.plan.index} was {cause}; another takes its place, the others continue"
        self.say(Reported(Notice(text)))
        self.trainer = self._start_trainer(self._order, True, self._descriptors())

    def _ended(self, role: str, code: int, message: str, kind: str = "") -> None:
        if role not in self._told:
            self._told.add(role)
            path = self.plan.directory / (layout.TRAINER_LOG if role == "trainer" else layout.SERVER_LOG)
            last = in_background(lambda: tail(path) if code else "")
            ended = ProcessEnded(role, code, message, kind)
            self._endings.append((ended, last, time.monotonic() + TAIL_SECONDS))

    def _tell_endings(self) -> None:
        for ended, last, deadline in list(self._endings):
            if last.done() or time.monotonic() > deadline:
                self._endings.remove((ended, last, deadline))
                self.say(replace(ended, log=last.result() if last.done() else ""))

    def _describe(self, code: int) -> tuple[str, str]:
        """What an exit code means: for people, and as a code of umiak/contract/reasons.py."""
        kills, self._kills = self._kills, memory_kills()
        if code == -signal.SIGKILL and self._kills > kills:
            return reasons.OUT_OF_MEMORY_TEXT, reasons.OUT_OF_MEMORY
        return describe(code), ""

    def say(self, report: Report) -> None:
        self.channel.send(Kind.CONTROL, encode_report(report, self.generation))

    def _kill(self) -> None:
        for process in (self.trainer, self.server):
            if process is not None:
                process.kill()

    def _gone(self, wait: bool = False) -> bool:
        """Whether nothing of its processes is left."""
        if self.trainer is not None and self.trainer.gone(wait):
            self.trainer = None
        if self.server is not None and (wait or self.server.poll() is not None):
            self.server.wait()
            for pipe in (self.server.stdin, self.server.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            self.server = None
        return self.trainer is None and self.server is None


def _answer(server: subprocess.Popen[bytes]) -> startup.Listening | UmiakError | None:
    """What a starting server has said, if anything."""
    assert server.stdout is not None
    line = server.stdout.readline() if select.select([server.stdout], [], [], 0)[0] else b""
    return startup.decode(line) if line else None


def describe(code: int) -> str:
    """What an exit code means, for a process that said nothing itself."""
    if code == -signal.SIGKILL:
        return "killed by signal 9 (SIGKILL); unless somebody did that, the machine was out of memory"
    if code < 0:
        return f"killed by signal {-code} ({signal.Signals(-code).name})"
    return f"ended with exit code {code}; see its log"


def tail(path: Path) -> str:
    """The last lines of a log, whole ones only."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LOG_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return text if size <= LOG_BYTES else text.partition("\n")[2]


def _own(address: str, channel: Channel) -> str:
    host, _, port = address.rpartition(":")
    return str(Address(channel.sock.getsockname()[0], int(port))) if host == ANY_HOST else address


def main(plan: WorkerPlan, start_trainer: ForkTrainer) -> int:
    """The whole life of a local job's supervisor, in a process of its own."""
    try:
        plan = replace(plan, incarnation=secrets.token_hex(8))
        Supervisor(plan, start_trainer, join(plan, None, JOIN_SECONDS)).run()
    except UmiakError as error:
        log.error("the job's coordinator is gone: %s", error)
        return error.exit_code
    return 0
