"""One worker: starts its parameter server and its trainer as the coordinator says, watches them, ends them.

It is forked from a process that has imported torch and loaded the config, and forks its trainer; its server is a fresh
process that never sees torch. When the coordinator is gone, so is the job: everything here ends.
"""

from __future__ import annotations

import contextlib
import json
import logging
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umiak.errors import RetryError, UmiakError
from umiak.pserver.process import ServerOptions
from umiak.wire import hello
from umiak.wire.address import Address
from umiak.wire.frames import Channel, Kind
from umiak.wire.hello import Member
from umiak.worker.child import TrainerChild

StartTrainer = Callable[[dict[str, Any], list[int]], TrainerChild]
"""Forks a trainer, given the coordinator's start note and the descriptors the child must close."""

BEAT_SECONDS = 2.0
TICK_SECONDS = 0.1
log = logging.getLogger("umiak.worker")


@dataclass(frozen=True)
class WorkerPlan:
    """What one worker runs. `addresses` are its services: (address, holds dense blocks, holds rows)."""

    index: int
    workers: int
    job: str
    token: str
    coordinator: str
    trainers: int
    trainer: int | None
    addresses: tuple[tuple[str, bool, bool], ...]
    tls: str | None
    insecure: bool
    directory: Path
    log_period_server: int
    replacements: int
    """How often a lost trainer may be replaced while the others go on: asynchronous mode only."""


class Supervisor:
    def __init__(self, plan: WorkerPlan, start_trainer: StartTrainer) -> None:
        self.plan, self._start_trainer = plan, start_trainer
        self.generation = -1
        self.server: subprocess.Popen[bytes] | None = None
        self.trainer: TrainerChild | None = None
        self._told: set[str] = set()
        self.note: dict[str, Any] = {}
        self.replaced = 0
        member = Member(plan.job, 0, "worker", plan.index, plan.workers)
        self.channel: Channel = hello.join(Address.parse(plan.coordinator), member, plan.token.encode(), None, 30.0)

    def run(self) -> None:
        """Obey until told to finish, or until the coordinator is gone."""
        beat = time.monotonic()
        try:
            self._say({"type": "here"})
            while True:
                watched: list[Any] = [self.channel.sock]
                if self.trainer is not None and not self.trainer.closed:
                    watched.append(self.trainer.reports)
                readable, _, _ = select.select(watched, [], [], TICK_SECONDS)
                if self.channel.sock in readable and not self._obey(self.channel.receive().json()):
                    return
                if self.trainer is not None:
                    for event in self.trainer.events():
                        self._say({"type": "event", "event": event})
                self._look_after()
                if time.monotonic() - beat > BEAT_SECONDS:
                    beat = time.monotonic()
                    self._say({"type": "beat"})
        except RetryError as error:
            log.error("the job's coordinator is gone: %s", error)
        finally:
            self._end_processes()

    def _obey(self, note: dict[str, Any]) -> bool:
        """Do what the coordinator says; False to finish."""
        kind = note["type"]
        if kind == "prepare":
            self._end_processes()
            self.generation, self._told = note["generation"], set()
            self._start_server()
        elif kind == "start" and note["generation"] == self.generation and self.plan.trainer is not None:
            self.note, self.replaced = note, 0
            self.trainer = self._start_trainer(note, self._descriptors())
        elif kind == "stop" and self.trainer is not None:
            self.trainer.stop()
        return kind != "finish"

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
            addresses=[address for address, _, _ in plan.addresses],
            token=plan.token,
            tls=plan.tls,
            insecure=plan.insecure,
            log_file=str(plan.directory / "server.log"),
            log_period=plan.log_period_server,
        )
        self.server = subprocess.Popen(
            [sys.executable, "-m", "umiak.pserver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.server.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.server.stdin.write(json.dumps(options.to_json()).encode() + b"\n")
            self.server.stdin.flush()

    def _ready(self) -> None:
        services = [{"address": address, "dense": dense, "rows": rows} for address, dense, rows in self.plan.addresses]
        self._told.add("ready")
        self._say({"type": "ready", "services": services})

    def _look_after(self) -> None:
        """Hear what the server says, and notice processes that have ended."""
        server = self.server
        if server is not None and not self._told & {"ready", "pserver"} and (answer := _answer(server)):
            if "ready" in answer:
                self._ready()
            else:
                self._ended("pserver", answer["exit_code"], answer["message"])
        if server is not None and server.poll() is not None:
            self._ended("pserver", server.returncode, describe(server.returncode))
        if self.trainer is not None and (ended := self.trainer.poll()) is not None:
            code, message = ended
            if code < 0 and self.replaced < self.plan.replacements:
                self._replace(describe(code))
            else:
                self._ended("trainer", code, message or describe(code))

    def _replace(self, cause: str) -> None:
        """Start another trainer in the place of a lost one; the servers know whether the others can wait for it."""
        assert self.trainer is not None
        self.trainer.kill()
        self.replaced += 1
        text = f"the trainer of worker {self.plan.index} was {cause}; another takes its place, the others go on"
        self._say({"type": "event", "event": {"event": "note", "text": text}})
        self.trainer = self._start_trainer({**self.note, "resume": True, "replaces": True}, self._descriptors())

    def _ended(self, role: str, code: int, message: str) -> None:
        if role not in self._told:
            self._told.add(role)
            self._say({"type": "ended", "role": role, "code": code, "message": message})

    def _say(self, note: dict[str, Any]) -> None:
        self.channel.send(Kind.NOTE, {**note, "generation": self.generation})

    def _end_processes(self) -> None:
        if self.trainer is not None:
            self.trainer.kill()
            self.trainer = None
        if self.server is not None:
            self.server.kill()
            self.server.wait()
            for pipe in (self.server.stdin, self.server.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            self.server = None


def _answer(server: subprocess.Popen[bytes]) -> dict[str, Any]:
    """What a starting server has said, if anything."""
    assert server.stdout is not None
    line = server.stdout.readline() if select.select([server.stdout], [], [], 0)[0] else b""
    return json.loads(line) if line else {}


def describe(code: int) -> str:
    """What an exit code means, for a process that said nothing itself."""
    if code == -signal.SIGKILL:
        return "killed by signal 9 (SIGKILL); if nobody did that, the machine was out of memory"
    if code < 0:
        return f"killed by signal {-code} ({signal.Signals(-code).name})"
    return f"ended with exit code {code}; its log says more"


def main(plan: WorkerPlan, start_trainer: StartTrainer) -> int:
    """A supervisor's whole life, in a process of its own."""
    try:
        Supervisor(plan, start_trainer).run()
    except UmiakError as error:
        log.error("%s", error)
        return error.exit_code
    return 0
