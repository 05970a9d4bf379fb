"""Paddle 2.6.2's parameter server, in a virtual environment of its own: installs it once and runs paddle_job.py.

Its synchronous mode crashes, so `sync` is its asynchronous one with a barrier of all trainers and a pull of the dense
values in every round. MKL_DEBUG_CPU_TYPE=5 lets its MKL use the fast paths of CPUs that are not Intel's.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import umiak
from umiak.bench.run import POLL_SECONDS, Run, free_ports
from umiak.errors import UmiakError

HOME = Path(".cache/bench/paddle")
PACKAGES = ("paddlepaddle==2.6.2", "protobuf<=4.25", "numpy<2")


def install() -> Path:
    """The interpreter of the environment; made if it is not there. About 600 MB."""
    python, ready = HOME / "bin" / "python", HOME / "ready"
    if not ready.exists():
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(HOME)],
            [str(python), "-m", "pip", "install", "--quiet", *PACKAGES],
        ):
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                last = (done.stderr.splitlines() or ["no message"])[-1]
                raise UmiakError(f"cannot install {PACKAGES[0]} into {HOME}: {last}")
        ready.touch()
    return python.absolute()


def sync(run: Run) -> None:
    _job(run, "sync", {"MKL_DEBUG_CPU_TYPE": "5"})


def as_shipped(run: Run) -> None:
    _job(run, "sync", {})


def asynchronous(run: Run) -> None:
    _job(run, "async", {"MKL_DEBUG_CPU_TYPE": "5"})


def dataset(run: Run) -> None:
    """Asynchronous with its own reader of text files, which is its fastest way."""
    _job(run, "dataset", {"MKL_DEBUG_CPU_TYPE": "5"})


def _job(run: Run, mode: str, extra: dict[str, str]) -> None:
    python = install()
    first = free_ports(2 * run.workers + 1)
    servers = [f"127.0.0.1:{first + number}" for number in range(run.workers)]
    trainers = [f"127.0.0.1:{first + run.workers + number}" for number in range(run.workers)]
    environment = {name: value for name, value in os.environ.items() if name != "MKL_DEBUG_CPU_TYPE"} | extra
    environment |= {
        "PYTHONPATH": str(Path(umiak.__file__).parents[1]),
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(servers),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(trainers),
        "PADDLE_TRAINERS_NUM": str(run.workers),
        "PADDLE_WITH_GLOO": "0",
        "POD_IP": "127.0.0.1",
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CPU_NUM"), "1"),
        "GLOG_v": "0",
    }
    words = [str(python), "-m", "umiak.bench.peers.paddle_job", run.workload, mode, str(run.workers)]
    words += [str(run.data.absolute()), str(run.directory.absolute()), str(first + 2 * run.workers)]

    @contextlib.contextmanager
    def started(role: str, number: int, endpoint: str) -> Iterator[subprocess.Popen[bytes]]:
        own = {"TRAINING_ROLE": role, "PADDLE_TRAINER_ID": str(number), "PADDLE_PORT": endpoint.rpartition(":")[2]}
        with log_path(run, role, number).open("wb") as log:
            process = subprocess.Popen(words, env=environment | own, cwd=run.directory, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    with contextlib.ExitStack() as processes:
        for number, endpoint in enumerate(servers):
            processes.enter_context(started("PSERVER", number, endpoint))
        time.sleep(1.0)  # trainers do not wait for servers that are not there yet
        working = [processes.enter_context(started("TRAINER", n, endpoint)) for n, endpoint in enumerate(trainers)]
        while not run.enough:
            time.sleep(POLL_SECONDS)
            for number, process in enumerate(working):
                if process.poll() is not None:
                    raise UmiakError(f"trainer {number} of {run.system} ended: {_last_words(run, number)}")


def log_path(run: Run, role: str, number: int) -> Path:
    return run.directory / f"{role.lower()}-{number}.log"


def _last_words(run: Run, number: int) -> str:
    lines = log_path(run, "TRAINER", number).read_text(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
