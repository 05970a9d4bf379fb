"""Training inside the test's own process: trainers as threads around a real parameter server, or one trainer alone.

Threads share torch's random state, so models used here draw their first values from a generator of their own.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from umiak.pserver.process import ServerOptions
from umiak.spec.config import Config
from umiak.spec.load import Loaded
from umiak.spec.settings import Settings
from umiak.trainer.output import check_output
from umiak.trainer.run import Assignment, ServiceAddress, run

DENSE_ONLY, ROWS_ONLY, BOTH = (True, False), (False, True), (True, True)


class Server:
    """A parameter server process for jobs of a fixed number of trainers, one after the other."""

    def __init__(self, directory: Path, trainers: int, services: tuple[tuple[bool, bool], ...]) -> None:
        self.trainers = trainers
        self.services = [ServiceAddress(f"unix:{directory}/{i}", *what) for i, what in enumerate(services)]
        options = ServerOptions("umiak", None, trainers, [service.address for service in self.services])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "umiak.pserver"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(options.to_json()).encode() + b"\n")
        self.process.stdin.flush()
        assert json.loads(self.process.stdout.readline()) == {"ready": True}


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


def train(config: Config | Loaded, out: Path | None, on: Server | None = None, **settings: Any) -> list[dict[str, Any]]:
    """Train to the end, alone or with all trainers of a server; what trainer 0 reported."""
    loaded = config if isinstance(config, Loaded) else Loaded(config)
    events: list[dict[str, Any]] = []
    chosen = replace(Settings(num_passes=1, dot_period=0), save_dir=out or Path("unused"), **settings)

    def trainer(index: int, count: int) -> None:
        services = on.services if on else ()
        assignment = Assignment(index, count, services=services, out=out, resume=chosen.resume)
        run(loaded, chosen, assignment, events.append if index == 0 else lambda event: None, lambda: False)

    if out is not None:
        check_output(chosen)
    threads = torch.get_num_threads()
    try:
        if on is None:
            trainer(0, 1)
        else:
            with ThreadPoolExecutor(on.trainers) as pool:
                for done in [pool.submit(trainer, index, on.trainers) for index in range(on.trainers)]:
                    done.result()
    finally:
        torch.set_num_threads(threads)
    return events
