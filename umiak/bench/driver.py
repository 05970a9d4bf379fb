"""Runs the systems of a workload one after the other, round after round, so that all see the same mood of the machine."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from umiak.bench.systems import SYNC_PADDLES, TRAINED, V1_TRAINED, may_be_missing
from umiak.errors import UmiakError

START_UP_SECONDS = 240.0
PADDLE_TRIALS = 2
"""In so many rounds both of Paddle's settings run, then the faster alone."""
Say = Callable[[str], None]


@dataclass
class Measured:
    """All runs of one workload: per system one result per round, in the order of the rounds."""

    workload: str
    runs: dict[str, list[dict[str, Any]]]
    notes: list[str] = field(default_factory=list)


def measure(workload: str, systems: Sequence[str], rounds: int, seconds: float, say: Say, workers: int = 3) -> Measured:
    measured = Measured(workload, {system: [] for system in systems})
    with tempfile.TemporaryDirectory(prefix="umiak-bench-") as scratch:
        data = Path(scratch)
        if workload in (*TRAINED, *V1_TRAINED):
            from umiak.bench.workloads import WORKLOADS, write

            write(WORKLOADS[workload], workers, data)
        for number in range(rounds):
            for system in [name for name in systems if name in measured.runs and name != slower_paddle(measured)]:
                result = once(workload, system, seconds, workers, data)
                if "failed" in result:
                    say(f"{workload} {system}: {result['failed']}; once more")
                    result = once(workload, system, seconds, workers, data)
                if "failed" in result:
                    if not may_be_missing(system):
                        raise UmiakError(f"{workload}, {system}: {result['failed']}")
                    del measured.runs[system]
                    measured.notes.append(f"{system} was left out: {result['failed']}")
                    say(f"{workload} {system}: left out, {result['failed']}")
                    continue
                measured.runs[system].append(result)
                say(_line(workload, system, number, rounds, result))
    return measured


def slower_paddle(measured: Measured) -> str | None:
    """Of Paddle's two settings, which one needs no more runs: others are compared with the faster."""
    runs = {name: measured.runs.get(name, []) for name in SYNC_PADDLES}
    if any(len(found) < PADDLE_TRIALS for found in runs.values()):
        return None
    return min(runs, key=lambda name: median(run["samples_per_s"] for run in runs[name]))


def once(workload: str, system: str, seconds: float, workers: int, data: Path) -> dict[str, Any]:
    """One run; its result, or {"failed": why}."""
    with tempfile.TemporaryDirectory(prefix="run-", dir=data) as directory:
        request = {"workload": workload, "system": system, "seconds": seconds, "workers": workers}
        request |= {"data": str(data), "directory": directory}
        command = [sys.executable, "-m", "umiak.bench.once", json.dumps(request)]
        limit = 3 * seconds + START_UP_SECONDS
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return {"failed": f"no result within {limit:.0f} s"}
    lines = done.stdout.splitlines()
    if lines and lines[-1].startswith("{"):
        result: dict[str, Any] = json.loads(lines[-1])
        return result
    last = (done.stderr.splitlines() or [f"exit code {done.returncode}"])[-1]
    return {"failed": f"the run ended without a result: {last}"}


def _line(workload: str, system: str, number: int, rounds: int, result: dict[str, Any]) -> str:
    unit = result.get("unit", "samples/s")
    rate, others = result["samples_per_s"], result["others"]
    return (
        f"{workload} {system:<18} {number + 1}/{rounds}  {rate:>12,.0f} {unit}, others had {others:.0%} of the machine"
    )
