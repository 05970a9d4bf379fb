"""Lets the systems of a workload run one after the other, round after round, so that all see the same moods of the machine."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from umiak.bench.systems import DATA, LIMITED, SYNC_PADDLES, TRAINED, V1_TRAINED, may_be_missing
from umiak.bench.turns import START_SECONDS, Actor, Failed, Stage
from umiak.bench.workloads import WORKLOADS, write
from umiak.errors import UmiakError

PADDLE_TRIALS = 2
"""In so many rounds both of Paddle's settings run, then the faster alone."""
LIMITED_SECONDS = 300.0
BIG = Path(".cache/bench")
Say = Callable[[str], None]


@dataclass
class Measured:
    """All runs of one workload: per system one result per round, in the order of the rounds."""

    workload: str
    runs: dict[str, list[dict[str, Any]]]
    notes: list[str] = field(default_factory=list)


def measure(
    workload: str,
    systems: Sequence[str],
    rounds: int,
    seconds: float,
    say: Say,
    workers: int = 3,
    baseline: Path | None = None,
) -> Measured:
    measured = Measured(workload, {system: [] for system in systems})
    if LIMITED in systems:
        rounds, seconds = 1, LIMITED_SECONDS
    with _scratch(on_disk=LIMITED in systems) as scratch, Stage() as stage:
        data = Path(scratch)
        trains = workload in (*TRAINED, *V1_TRAINED, "data-ctr")
        actors: dict[str, Actor] = {}
        if workload in DATA:
            from umiak.bench import feeding

            say(f"{workload}: writing its data")
            feeding.write(workload, data)
        elif trains:
            write(WORKLOADS[workload], workers, data)
        if trains:
            # A connection over TCP that is held in the middle of a message counts as lost after a minute: it comes last.
            for system in sorted(systems, key=lambda name: name == "umiak-tls"):
                say(f"{workload} {system}: starting")
                with _or_left_out(measured, system, say):
                    actors[system] = stage.start(workload, system, workers, data, baseline)
        slower: str | None = None
        for number in range(rounds):
            taking_part = [name for name in systems if name in measured.runs and name != slower]
            # Who comes last in every round has an advantage (2 % seen), so each comes last as often as first.
            for system in taking_part if number % 2 == 0 else reversed(taking_part):
                with _or_left_out(measured, system, say):
                    turn = actors[system].turn(seconds) if trains else once(workload, system, seconds, workers, data)
                    measured.runs[system].append(turn)
                    say(_line(workload, system, number, rounds, turn))
            if slower is None and (slower := slower_paddle(measured)) is not None:
                actors[slower].close()
    return measured


def _scratch(on_disk: bool) -> tempfile.TemporaryDirectory[str]:
    """Where runs have their directories; /tmp may be in memory."""
    if on_disk:
        BIG.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="umiak-bench-", dir=BIG.absolute() if on_disk else None)


@contextlib.contextmanager
def _or_left_out(measured: Measured, system: str, say: Say) -> Iterator[None]:
    """Continue without a system that fails, if it is one of those that may be missing."""
    try:
        yield
    except Failed as error:
        if not may_be_missing(system):
            raise UmiakError(f"{measured.workload}, {system}: {error}") from None
        del measured.runs[system]
        measured.notes.append(f"{system} was left out: {error}")
        say(f"{measured.workload} {system}: left out, {error}")


def slower_paddle(measured: Measured) -> str | None:
    """Of Paddle's two settings, which one needs no more runs: others are compared with the faster."""
    runs = {name: measured.runs.get(name, []) for name in SYNC_PADDLES}
    if any(len(found) < PADDLE_TRIALS for found in runs.values()):
        return None
    return min(runs, key=lambda name: median(run["samples_per_s"] for run in runs[name]))


def once(workload: str, system: str, seconds: float, workers: int, data: Path) -> dict[str, Any]:
    """One run of a system that measures itself."""
    with tempfile.TemporaryDirectory(prefix="run-", dir=data) as directory:
        request = {"workload": workload, "system": system, "seconds": seconds, "workers": workers}
        request |= {"data": str(data), "directory": directory}
        command = [sys.executable, "-m", "umiak.bench.once", json.dumps(request)]
        limit = 3 * seconds + START_SECONDS
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            raise Failed(f"no result within {limit:.0f} s") from None
    lines = done.stdout.splitlines()
    result: dict[str, Any] = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}
    if "samples_per_s" not in result:
        last = (done.stderr.splitlines() or [f"exit code {done.returncode}"])[-1]
        raise Failed(result.get("failed") or f"the run ended without a result: {last}")
    return result


def _line(workload: str, system: str, number: int, rounds: int, result: dict[str, Any]) -> str:
    unit = result.get("unit", "samples/s")
    rate, others = result["samples_per_s"], result["others"]
    return (
        f"{workload} {system:<18} {number + 1}/{rounds}  {rate:>12,.0f} {unit}, others had {others:.0%} of the machine"
    )
