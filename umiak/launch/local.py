"""A training job on this machine: workers as processes around one coordinator, or everything in this process.

torch and the config are loaded here once; supervisors, and from them trainers, are forked.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from umiak import extras, logs
from umiak.data.shared import shared
from umiak.errors import InputError, UmiakError
from umiak.files import exists, read_bytes, write_json
from umiak.launch.plan import JOB, plan_workers
from umiak.launch.supervisors import Supervisors
from umiak.messages import failure
from umiak.messages.events import Event, Failed, Notice, Snapshot, Work
from umiak.messages.failure import Failure
from umiak.rundir import layout
from umiak.rundir.eventlog import EventLog
from umiak.rundir.lock import locked
from umiak.sinks.feed import logging_to
from umiak.sinks.target import targets
from umiak.spec.load import Loaded, load, settled
from umiak.spec.settings import Settings
from umiak.system import need_linux
from umiak.wire.address import Address, listen, socket_directory
from umiak.wire.server import FrameServer
from umiak.worker.conclusion import conclude
from umiak.worker.coordinator import Coordinator
from umiak.worker.forked import warm_up
from umiak.worker.roster import Rules
from umiak.worker.usage import Usage

if TYPE_CHECKING:
    from umiak.launch.directory import LocalDirectory

OnEvent = Callable[[Event], None]
LOOK_SECONDS = 0.25


class JobError(UmiakError):
    """A job of workers that ended without a model: by a worker's failure, or because it was asked to stop."""

    def __init__(self, message: str, code: int, cause: Failure | None) -> None:
        super().__init__(message)
        self.exit_code, self.cause = code, cause


def train(settings: Settings, on_event: OnEvent, loaded: Loaded | None = None) -> int:
    """Train to the end and return 0. Raises what went wrong, with its exit code."""
    from umiak.launch.directory import LocalDirectory
    from umiak.rundir import prepare
    from umiak.rundir.snapshot import check_start

    begun = time.monotonic()
    out = settings.save_dir
    if not settings.local:
        # Trainers are forks of a process that has imported torch, whose libraries survive that only on Linux.
        need_linux("training with workers", "train in one process with --local")
    if loaded is None:
        loaded = _loaded(settings)
    settings = settled(loaded, settings)
    check_start(loaded.config.shapes, settings)
    for text in loaded.warnings:
        on_event(Notice(f"warning: {text}"))
    sinks = targets(settings.log_to)
    if not_written := extras.not_written():
        on_event(Notice(not_written))
    prepare.decide(settings)
    prepare.make(out)
    with locked(out):
        preparation = prepare.decide(settings)
        directory = LocalDirectory(out)
        prepare.carry_out(preparation, lambda text: on_event(Notice(text)))
        with logging_to(sinks, out, on_event) as watch:
            return _train(settings, directory, watch, loaded, begun)


def _loaded(settings: Settings) -> Loaded:
    """The config that was named, or that of the snapshot to begin with."""
    if settings.config is not None:
        return load(settings.config, settings.config_args, settings)
    if settings.init_model_path is None:
        raise InputError("name a config file: umiak train CONFIG")

    from umiak.evaluation.loading import config_of
    from umiak.rundir.snapshot import find

    return config_of(find(settings.init_model_path), None, settings.config_args, settings)


def _train(settings: Settings, directory: LocalDirectory, on_event: OnEvent, loaded: Loaded, begun: float) -> int:
    logs.setup(directory.out / layout.JOB_LOG, queued=True)
    settings = dataclasses.replace(settings, seed=_seed(settings))
    snapshots = [""]
    with contextlib.closing(EventLog(directory.out)) as written:

        def watch(event: Event) -> None:
            if isinstance(event, Snapshot):
                snapshots.append(event.path)
            written(event)
            on_event(event)

        try:
            if settings.local:
                _alone(settings, directory, loaded, watch)
            else:
                _together(settings, directory, loaded, watch)
        except Exception as error:
            written(_told(error))
            raise
        watch(conclude(settings.save_dir, loaded, time.monotonic() - begun, snapshots[-1]))
    return 0


def _told(error: Exception) -> Failed:
    if isinstance(error, JobError):
        return failure.told(error.exit_code, str(error), error.cause)
    if isinstance(error, UmiakError):
        return Failed(str(error), error.exit_code, 0, "trainer", type(error).__name__)
    return Failed(f"{type(error).__name__}: {error}", UmiakError.exit_code, 0, "trainer")


def _alone(settings: Settings, directory: LocalDirectory, loaded: Loaded, on_event: OnEvent) -> None:
    from umiak.trainer.run import run
    from umiak.trainer.task import Assignment
    from umiak.trainer.trainer import Stopped

    named = directory.select(directory.generation).result()
    assignment = Assignment(
        out=directory.out,
        generation=directory.generation,
        checkpoint=directory.out / layout.CHECKPOINTS / named if named else None,
    )
    stream = logs.setup(layout.node(settings.save_dir, 0) / layout.TRAINER_LOG)
    usage = Usage(0)

    def report(event: Event) -> None:
        on_event(event)
        if isinstance(event, Work) and (used := usage.look({"trainer": os.getpid()})):
            on_event(used)

    with _stopping() as stop:
        try:
            run(loaded, settings, assignment, report, stop.is_set, stream)
        except Stopped as error:
            raise Stopped(f"{error}; continue with --resume") from None


def _together(settings: Settings, directory: LocalDirectory, loaded: Loaded, on_event: OnEvent) -> None:
    warm_up()
    with socket_directory() as rundir, shared(loaded.config.train, loaded.config.test):
        plans = plan_workers(settings, rundir, secrets.token_hex(16))
        trainers = [plan.trainer is not None for plan in plans]
        rules = Rules(settings.max_restarts)
        coordinator = Coordinator(JOB, trainers, directory, on_event, rules, directory.generation)
        listener = listen(Address.parse(plans[0].coordinator))
        server = coordinator.server = FrameServer([listener], coordinator, plans[0].token.encode(), None)
        with _stopping() as stop:
            _coordinate(coordinator, server, Supervisors(plans, settings, loaded, server), stop)
    assert coordinator.result is not None
    code, message = coordinator.result
    if code:
        raise JobError(message + ("; continue with --resume" if code == 75 else ""), code, coordinator.cause)


def _coordinate(coordinator: Coordinator, server: FrameServer, supervisors: Supervisors, stop: threading.Event) -> None:
    """Keep the supervisors alive and the coordinator going until the job has a result; then see everything end."""
    gc.collect()
    gc.freeze()
    try:
        while coordinator.result is None:
            supervisors.look_after(lambda index: coordinator.workers[index].peer is not None)
            if stop.is_set() and not coordinator.stopping:
                coordinator.stop()
            server.poll(LOOK_SECONDS)
            coordinator.tick()
        supervisors.wait()
    finally:
        server.close()
        supervisors.kill()


@contextlib.contextmanager
def _stopping() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets; a second Ctrl-C interrupts for good."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _seed(settings: Settings) -> int:
    """The seed of a run: what was given, what the resumed run had, or one from the clock."""
    path = settings.save_dir / layout.RUN
    seed = settings.seed
    if seed == 0 and settings.resume and exists(path):
        seed = int(json.loads(read_bytes(path))["seed"])
    seed = seed or time.time_ns() % (1 << 31)
    write_json(path, {"seed": seed, "workers": settings.workers})
    return seed
