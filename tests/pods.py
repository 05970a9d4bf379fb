"""Pods without Kubernetes: `umiak pod` processes on this machine, each with its own directory, port and certificate.

A pod is a session of processes. `kill` ends all of it at once, as a lost machine would; starting the same index again is what
Kubernetes does then.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.fork_server import ForkedPopen
from tests.processes import TINY, alive, children, descendants, is_server, wait_until_gone
from umiak.wire import credentials

PORTS_APART = 10


class Pods:
    """The pods of one job."""

    def __init__(self, directory: Path, workers: int, *args: str, config: Path = TINY, pause: float = 0.0) -> None:
        self.directory, self.workers, self.pause = directory, workers, pause
        self.out = directory / "volume" / "output"
        self.out.parent.mkdir(parents=True, exist_ok=True)
        credentials.write(directory / "credentials", workers)
        self.archive = directory / "config.tar.gz"
        with tarfile.open(self.archive, "w:gz") as tar:
            tar.add(config, "config.py")
        self.args = list(args)
        self.port = free_ports(PORTS_APART * (workers + 1))
        self.environment: dict[str, str] = {}
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.seen: set[int] = set()
        self.starts = 0

    def start(self, *indices: int, **environment: str) -> None:
        for index in indices or range(self.workers):
            self.starts += 1
            cwd = self.directory / f"work-{index}-{self.starts}"
            cwd.mkdir()
            with self.log(index).open("ab") as log:
                self.running[index] = ForkedPopen(
                    [sys.executable, "-m", "umiak.cli.main", "pod"],
                    cwd=cwd,
                    env={**os.environ, **self.variables(index), **self.environment, **environment},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )

    def variables(self, index: int) -> dict[str, str]:
        return {
            "JOB_COMPLETION_INDEX": str(index),
            "UMIAK_JOB": "tiny",
            "UMIAK_JOB_UID": "0f1e2d3c",
            "UMIAK_TOKEN": "secret",
            "UMIAK_WORKERS": str(self.workers),
            "UMIAK_COORDINATOR": f"127.0.0.1:{self.port}",
            "UMIAK_PORT": str(self.port + PORTS_APART * (index + 1)),
            "UMIAK_OUT": str(self.out),
            "UMIAK_ENTRY": "config.py",
            "UMIAK_ARGS": json.dumps(self.args),
            "UMIAK_CONFIG": str(self.archive),
            "UMIAK_CREDENTIALS": str(self.directory / "credentials" / f"worker-{index}"),
            "UMIAK_TERMINATION_LOG": str(self.directory / f"termination-{index}"),
            "UMIAK_TEST_PAUSE": str(self.pause),
        }

    def log(self, index: int) -> Path:
        return self.directory / f"pod-{index}.log"

    def events(self, index: int = 0, kind: str | None = None) -> list[dict[str, Any]]:
        lines = self.log(index).read_text(errors="replace").splitlines() if self.log(index).exists() else []
        found = [json.loads(line.removeprefix("@umiak ")) for line in lines if line.startswith("@umiak ")]
        return [event for event in found if kind in (None, event["event"])]

    def termination(self, index: int) -> Mapping[str, Any]:
        value: dict[str, Any] = json.loads((self.directory / f"termination-{index}").read_text())
        return value

    def kill(self, index: int) -> None:
        """Everything of one pod at once, and wait until nothing of it is left."""
        process = self.running.pop(index)
        below = [process.pid, *descendants(process.pid)]
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        wait_until_gone(below)

    def tell(self, *indices: int) -> None:
        """What Kubernetes sends to the first process of a pod that is to end."""
        for index in indices:
            self.running[index].send_signal(signal.SIGTERM)

    def wait(self, *indices: int, seconds: float = 90) -> list[int]:
        """The exit codes of these pods, or of all."""
        deadline = time.monotonic() + seconds
        codes = []
        for index in indices or sorted(self.running):
            try:
                codes.append(self.running.pop(index).wait(max(0.1, deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"pod {index} does not end\n{self.told()}") from None
        return codes

    def until(self, condition: Callable[[], Any], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"it does not happen\n{self.told()}"
            ended = {index: process.returncode for index, process in self.running.items() if process.poll() is not None}
            assert not ended, f"pods ended with {ended}\n{self.told()}"
            time.sleep(0.05)

    def told(self) -> str:
        return "\n".join(
            f"--- pod {i}\n{self.log(i).read_text()[-3000:]}" for i in range(self.workers) if self.log(i).exists()
        )

    def rounds(self) -> int:
        """The last round that was reported since the last restart."""
        events = self.events()
        last = max((number for number, event in enumerate(events) if event["event"] == "restart"), default=-1)
        return max((event["round"] for event in events[last + 1 :] if event["event"] == "round"), default=-1)

    def close(self) -> None:
        for index in list(self.running):
            self.kill(index)


@contextlib.contextmanager
def job(directory: Path, workers: int, *args: str, config: Path = TINY, pause: float = 0.0) -> Iterator[Pods]:
    pods = Pods(directory, workers, *args, config=config, pause=pause)
    try:
        yield pods
    finally:
        pods.close()


def process(pods: Pods, index: int, who: str) -> int:
    """A process of a pod. The server is a program of its own; of the forks, the coordinator is the one that was made first."""
    pod = pods.running[index].pid
    below = [pid for pid in children(pod) if alive(pid)]
    servers = [pid for pid in below if is_server(pid)]
    forks = [pid for pid in below if pid not in servers]
    return servers[0] if who == "server" else forks[0] if who == "coordinator" else forks[-1]


def free_ports(count: int) -> int:
    """The first of `count` ports in a row that nobody uses now."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first: int = probe.getsockname()[1]
        if first + count < 65536 and all(_is_free(first + number) for number in range(0, count, PORTS_APART)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True
