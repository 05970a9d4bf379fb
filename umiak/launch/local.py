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
from typing import TYPE_CHECKING, Any

from umiak import logs
from umiak.errors import InputError, UmiakError
from umiak.files import exists, read_bytes, write_json
from umiak.launch.plan import JOB, plan_workers
from umiak.rundir import layout
from umiak.rundir.lock import locked
from umiak.spec.load import Loaded, load, settled
from umiak.spec.settings import Settings
from umiak.wire.address import Address, listen, socket_directory
from umiak.wire.server import FrameServer
from umiak.worker.conclusion import conclude
from umiak.worker.coordinator import Coordinator
from umiak.worker.forked import start_trainer, warm_up
from umiak.worker.roster import Rules
from umiak.worker.supervisor import WorkerPlan
from umiak.worker.supervisor import main as supervise

if TYPE_CHECKING:
    from umiak.launch.directory import LocalDirectory

OnEvent = Callable[[dict[str, Any]], None]
ENDING_SECONDS = 10.0
LOOK_SECONDS = 0.25


def train(settings: Settings, on_event: OnEvent, loaded: Loaded | None = None) -> int:
    """Train to the end and return 0. Raises what went wrong, with its exit code."""
    from umiak.launch.directory import LocalDirectory
    from umiak.rundir import prepare
    from umiak.rundir.snapshot import check_start

    begun = time.monotonic()
    out = settings.save_dir
    if loaded is None:
        loaded = _loaded(settings)
    settings = settled(loaded, settings)
    check_start(loaded.config.shapes, settings)
    for text in loaded.notes:
        on_event({"event": "note", "text": f"warning: {text}"})
    prepare.decide(settings)
    prepare.make(out)
    with locked(out):
        preparation = prepare.decide(settings)
        directory = LocalDirectory(out)
        prepare.carry_out(preparation, lambda text: on_event({"event": "note", "text": text}))
        return _train(settings, directory, on_event, loaded, begun)


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
    last = {"snapshot": ""}

    def note(event: dict[str, Any]) -> None:
        if event["event"] == "snapshot":
            last["snapshot"] = event["path"]
        on_event(event)

    if settings.local:
        _alone(settings, directory, loaded, note)
    else:
        _together(settings, directory, loaded, note)
    on_event(conclude(settings.save_dir, loaded, time.monotonic() - begun, last["snapshot"]))
    return 0


def _alone(settings: Settings, directory: LocalDirectory, loaded: Loaded, on_event: OnEvent) -> None:
    from umiak.trainer.job import Stopped
    from umiak.trainer.run import Assignment, run

    named = directory.select(directory.generation).result()
    assignment = Assignment(
        out=directory.out,
        generation=directory.generation,
        checkpoint=directory.out / layout.CHECKPOINTS / named if named else None,
    )
    stream = logs.setup(layout.node(settings.save_dir, 0) / layout.TRAINER_LOG)
    with _stopping() as stop:
        try:
            run(loaded, settings, assignment, on_event, stop.is_set, stream)
        except Stopped as error:
            raise Stopped(f"{error}; go on with --resume") from None


def _together(settings: Settings, directory: LocalDirectory, loaded: Loaded, on_event: OnEvent) -> None:
    warm_up()
    with socket_directory() as rundir:
        plans = plan_workers(settings, rundir, secrets.token_hex(16))
        trainers = [plan.trainer is not None for plan in plans]
        rules = Rules(settings.max_restarts)
        coordinator = Coordinator(JOB, trainers, directory, on_event, rules, directory.generation)
        listener = listen(Address.parse(plans[0].coordinator))
        server = coordinator.server = FrameServer([listener], coordinator, plans[0].token.encode(), None)
        with _stopping() as stop:
            _coordinate(coordinator, server, plans, settings, loaded, stop)
    assert coordinator.result is not None
    code, message = coordinator.result
    if code:
        error = UmiakError(message + ("; go on with --resume" if code == 75 else ""))
        error.exit_code = code
        raise error


def _coordinate(
    coordinator: Coordinator,
    server: FrameServer,
    plans: list[WorkerPlan],
    settings: Settings,
    loaded: Loaded,
    stop: threading.Event,
) -> None:
    """Keep the supervisors alive and the coordinator going until the job has a result; then see everything end."""
    children: dict[int, int] = {}
    joined: set[int] = set()
    gc.collect()
    gc.freeze()
    try:
        while coordinator.result is None:
            for index, plan in enumerate(plans):
                here = coordinator.workers[index].peer is not None
                if index in children and os.waitpid(children[index], os.WNOHANG)[0]:
                    _kill_group(children.pop(index))
                    joined.discard(index)
                if here:
                    joined.add(index)
                elif index in joined and index in children:
                    # It was given up for silence: stopped, not dead.
                    _kill_group(children[index])
                elif index not in children:
                    children[index] = _fork_supervisor(plan, settings, loaded, server)
            if stop.is_set() and not coordinator.stopping:
                coordinator.stop()
            server.poll(LOOK_SECONDS)
            coordinator.tick()
        deadline = time.monotonic() + ENDING_SECONDS
        while children and time.monotonic() < deadline:
            server.poll(0.05)
            children = {index: pid for index, pid in children.items() if not os.waitpid(pid, os.WNOHANG)[0]}
    finally:
        server.close()
        for pid in children.values():
            _kill_group(pid)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _kill_group(pid: int) -> None:
    """End a supervisor and whatever it started: they are one process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _fork_supervisor(plan: WorkerPlan, settings: Settings, loaded: Loaded, server: FrameServer) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        server.close()
        stream = logs.setup(plan.directory / layout.WORKER_LOG, queued=True)
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
        code = supervise(plan, lambda note, close: start_trainer(plan, settings, loaded, note, close))
    finally:
        logs.flush()
        os._exit(code)


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
    """The seed of a run: what was given, what the run that goes on had, or one from the clock."""
    path = settings.save_dir / layout.RUN
    seed = settings.seed
    if seed == 0 and settings.resume and exists(path):
        seed = int(json.loads(read_bytes(path))["seed"])
    seed = seed or time.time_ns() % (1 << 31)
    write_json(path, {"seed": seed, "workers": settings.workers})
    return seed
