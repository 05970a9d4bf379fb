"""Systems that take turns. Each is started once and then held; it is let go for its turn, a few seconds, and held again.

The speed of a shared machine changes within seconds, so systems that are to be compared must meet it seconds apart, many
times. All processes of a system are held with SIGSTOP: what they have done of a round is there when their next turn comes.

As a program, `python -m umiak.bench.turns` ends systems whose driver was killed: held, they could not do it themselves.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from umiak.bench.noise import Watch, tree
from umiak.errors import UmiakError

START_SECONDS = 240.0
TURN_SECONDS = 60.0
"""A turn may take so much longer than it should, until every trainer has ended two rounds."""
ENDING_SECONDS = 20.0
LOOK_SECONDS = 0.02
LEAST_GB = 1.5


class Failed(UmiakError):
    """A system that ended, or never got to its rounds."""


class Stage:
    """Where systems are held. Ends all of them when it is left, however that happens."""

    def __init__(self) -> None:
        self._actors: list[Actor] = []
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "umiak.bench.turns"], stdin=subprocess.PIPE, text=True, start_new_session=True
        )

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for actor in self._actors:
            actor.close()
        self._guard.kill()
        self._guard.communicate()

    def start(self, workload: str, system: str, workers: int, data: Path, baseline: Path | None = None) -> Actor:
        """Start a system, wait until it is in its steady state and hold it."""
        if (left := available_gb()) < LEAST_GB:
            raise Failed(f"{left:.1f} GB of memory is free, and all systems of a workload run in it at once: free some")
        actor = Actor(workload, system, workers, data, baseline)
        self._actors.append(actor)
        assert self._guard.stdin is not None
        self._guard.stdin.write(f"{actor.pid}\n")
        self._guard.stdin.flush()
        actor.wait()
        return actor


class Actor:
    """One system on one workload, in processes of its own."""

    def __init__(self, workload: str, system: str, workers: int, data: Path, baseline: Path | None = None) -> None:
        """`baseline` is the checkout that the system of that name runs."""
        from umiak.bench.meter import Reading
        from umiak.bench.systems import BASELINE, trainers
        from umiak.bench.workloads import WORKLOADS

        self._size = WORKLOADS[workload].batch_size
        self._directory = Path(tempfile.mkdtemp(prefix="run-", dir=data))
        self._readings = [Reading(self._directory, number) for number in range(trainers(system, workers))]
        tree = baseline if system == BASELINE else None
        request = {"workload": workload, "system": "umiak" if tree else system, "seconds": 0.0, "workers": workers}
        request |= {"data": str(data), "directory": str(self._directory)}
        self._said = self._directory / "said"
        with self._said.open("wb") as said:
            python = str(tree / ".venv" / "bin" / "python") if tree else sys.executable
            command = [python, "-m", "umiak.bench.once", json.dumps(request)]
            environment = {**os.environ, "PYTHONPATH": str(tree)} if tree else None
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment, cwd=tree
            )
        self.pid = self._process.pid

    def wait(self) -> None:
        """Until every trainer has warmed up; then hold it."""
        deadline = time.monotonic() + START_SECONDS
        while not all(reading.has_begun for reading in self._readings):
            self._look(deadline, f"no round within {START_SECONDS:.0f} s")
        self._signal(signal.SIGSTOP)

    def turn(self, seconds: float) -> dict[str, Any]:
        """Let it go until every trainer has measured for so long."""
        for reading in self._readings:
            reading.forget()
        watch, began = Watch(self.pid), time.monotonic()
        self._signal(signal.SIGCONT)
        time.sleep(seconds)  # who looks meanwhile takes a core away from those who are measured
        while any(reading.span() < seconds for reading in self._readings):
            self._look(began + seconds + TURN_SECONDS, f"no two rounds within {seconds + TURN_SECONDS:.0f} s")
        others = watch.stop()
        self._signal(signal.SIGSTOP)
        rates = [reading.rounds_per_s() for reading in self._readings]
        notes = self._readings[0].notes()
        return {
            **notes,
            "samples_per_s": self._size * sum(rates),
            "rounds_per_s": sum(rates) / len(rates),
            "others": others,
        }

    def close(self) -> None:
        """Tell it that it is enough; end what does not end by itself."""
        if self._process.poll() is None:
            enough(self._directory).touch()
            self._signal(signal.SIGCONT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(ENDING_SECONDS)
        if self._process.poll() is None:
            self._signal(signal.SIGKILL)
            self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _look(self, deadline: float, late: str) -> None:
        time.sleep(LOOK_SECONDS)
        if self._process.poll() is not None:
            raise Failed(_reason(self._said) or f"it ended with exit code {self._process.returncode}")
        if time.monotonic() > deadline:
            raise Failed(late)

    def _signal(self, number: int) -> None:
        _signal_tree(self.pid, number)


def enough(directory: Path) -> Path:
    """The file that tells a system to end."""
    return directory / "enough"


def available_gb() -> float:
    """Memory that this machine can still give."""
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return int(line.split()[1]) / 1e6


def _signal_tree(pid: int, number: int) -> None:
    for each in tree(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, number)


def _reason(said: Path) -> str:
    """What a system said last: its own account of a failure, after the end of a traceback that came before it."""
    lines = [line for line in said.read_text(errors="replace").splitlines() if line.strip()]
    with contextlib.suppress(ValueError, KeyError, TypeError, IndexError):
        account = str(json.loads(lines[-1])["failed"])
        return f"{account} ({lines[-2]})" if len(lines) > 1 else account
    return lines[-1] if lines else ""


def guard(lines: IO[str]) -> None:
    """Once whoever writes the lines is gone, end the systems whose processes they name."""
    for pid in [int(line) for line in lines]:
        _signal_tree(pid, signal.SIGKILL)


if __name__ == "__main__":
    guard(sys.stdin)
