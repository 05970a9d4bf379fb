"""One run of one system: what it is told, where its trainers note their rounds, and when it ends."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from umiak.bench.meter import Meter
from umiak.bench.noise import Watch
from umiak.bench.turns import enough
from umiak.bench.workloads import WORKLOADS, Workload, batches
from umiak.errors import UmiakError

POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Run:
    """`data` holds the batches, `directory` is this run's own. A system that takes turns runs until it has had `enough`."""

    workload: str
    system: str
    seconds: float
    workers: int
    data: Path
    directory: Path
    watch: Watch = field(default_factory=Watch)

    @property
    def trained(self) -> Workload:
        return WORKLOADS[self.workload]

    def batches(self, trainer: int, workers: int | None = None) -> list[dict[str, Any]]:
        return batches(self.trained, workers or self.workers, self.data, trainer)

    def meter(self, trainer: int, notes: Callable[[], dict[str, Any]] = dict) -> Meter:
        return Meter(self.directory, trainer, self.trained.distinct, notes)

    @property
    def enough(self) -> bool:
        return enough(self.directory).exists()


def in_processes(run: Run, trainers: int, work: Callable[[int], None]) -> None:
    """Run `work(trainer)` in forked processes until it is enough, then end them."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=work, args=(trainer,), daemon=True) for trainer in range(trainers)]
    for process in processes:
        process.start()
    try:
        while not run.enough:
            time.sleep(POLL_SECONDS)
            ended = [number for number, process in enumerate(processes) if not process.is_alive()]
            if ended:
                raise UmiakError(f"trainer {ended[0]} of {run.system} ended")
    finally:
        for process in processes:
            process.kill()
            process.join()


def free_ports(count: int) -> int:
    """The first of so many neighbouring ports that nobody listens on."""
    for first in range(20200 + os.getpid() % 1000, 60000, count):
        with contextlib.ExitStack() as taken, contextlib.suppress(OSError):
            for port in range(first, first + count):
                taken.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
    raise UmiakError(f"no {count} consecutive ports are free on this machine")
