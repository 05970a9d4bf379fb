"""Training inside the test's own process: trainers as threads around a real parameter server, or one trainer alone.

Threads share torch's random state, so models used here draw their first values from a generator of their own.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import gc
import json
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from umiak.messages.control import ServiceAddress
from umiak.messages.events import Event
from umiak.pserver import warm
from umiak.pserver.process import ServerOptions
from umiak.rundir import checkpoint, prepare
from umiak.spec.config import Config
from umiak.spec.load import Loaded
from umiak.spec.settings import Settings
from umiak.trainer.run import run
from umiak.trainer.task import Assignment
from umiak.worker.forked import warm_up

MOST_SECONDS = 120
DENSE_ONLY, ROWS_ONLY, BOTH = (True, False), (False, True), (True, True)


class Server:
    """A parameter server process for jobs of a fixed number of trainers, one after the other."""

    def __init__(self, directory: Path, trainers: int, services: tuple[tuple[bool, bool], ...]) -> None:
        self.trainers = trainers
        self.services = [ServiceAddress(f"unix:{directory}/{i}", *what) for i, what in enumerate(services)]
        options = ServerOptions("umiak", None, trainers, [service.address for service in self.services], "/")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "umiak.worker.server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(options.to_json()).encode() + b"\n")
        self.process.stdin.flush()
        assert json.loads(self.process.stdout.readline()) == {"ready": True}

    def run(self, trainer: Callable[[int], None]) -> None:
        """Run every trainer in a thread. One that fails ends the others, which would wait for it for ever."""
        results: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

        def work(index: int) -> None:
            try:
                trainer(index)
                results.put(None)
            except BaseException as error:
                results.put(error)

        # Daemons: one that hangs must not keep the test, or the interpreter, from ending.
        threads = [threading.Thread(target=work, args=(index,), daemon=True) for index in range(self.trainers)]
        try:
            with no_collection():
                for thread in threads:
                    thread.start()
                for _ in threads:
                    if (error := results.get(timeout=MOST_SECONDS)) is not None:
                        raise error
        except BaseException as error:
            if isinstance(error, queue.Empty):
                faulthandler.dump_traceback(sys.__stderr__)
                self.process.send_signal(signal.SIGUSR1)  # its stacks too
                time.sleep(1)
            self.process.kill()
            raise
        finally:
            for thread in threads:
                thread.join(10)


@contextlib.contextmanager
def server(trainers: int, services: tuple[tuple[bool, bool], ...] = (DENSE_ONLY, BOTH)) -> Iterator[Server]:
    # The path of a unix socket must be short, which pytest's directories are not.
    directory = Path(tempfile.mkdtemp(prefix="umiak-"))
    try:
        running = Server(directory, trainers, services)
        with running.process:
            yield running
            assert running.process.stdin is not None
            running.process.stdin.close()
    finally:
        shutil.rmtree(directory)


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """For threads that use torch's random numbers: a collection of garbage can let them wait for each other for ever.

    torch makes the tensor of get_rng_state under a lock. If garbage is collected there, its finalizers can hand the interpreter
    to another thread, which keeps it while it waits for that lock.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@functools.cache
def load_kernels() -> None:
    """Once, by one thread: numba can fail when several of them meet a type that it has not seen."""
    warm.main()
    warm_up()


def train(config: Config | Loaded, out: Path | None, on: Server | None = None, **settings: Any) -> list[Event]:
    """Train to the end, alone or with all trainers of a server; what trainer 0 reported."""
    loaded = config if isinstance(config, Loaded) else Loaded(config)
    events: list[Event] = []
    chosen = replace(Settings(num_passes=1, dot_period=0), save_dir=out or Path("unused"), **settings)

    def trainer(index: int, count: int) -> None:
        services = on.services if on else ()
        assignment = Assignment(index, count, services=services, out=out, checkpoint=found)
        run(loaded, chosen, assignment, events.append if index == 0 else lambda event: None, lambda: False)

    if out is not None:
        prepare.carry_out(prepare.decide(chosen), print)
        prepare.make(out)
    found = checkpoint.select(out) if out is not None and chosen.resume else None
    threads = torch.get_num_threads()
    load_kernels()
    try:
        if on is None:
            trainer(0, 1)
        else:
            on.run(lambda index: trainer(index, on.trainers))
    finally:
        torch.set_num_threads(threads)
    return events
