"""How speed grows with workers: measures some here, fits the cost of a round, and predicts many on machines of their own.

The model. A round of one worker costs CPU time: `compute` (its own batch), `per_byte` for what its trainer sends and
receives, `per_message` for each of its exchanges, one per server that holds a part of the model, counted with the server's
side, and `per_round` for taking part in an exchange at all: waiting, waking up, one update. Here n workers share the cores,
and one worker alone keeps `parallel` cores busy, since the next batch is prepared meanwhile. So a round of n takes

    n · (compute + per_byte · bytes + per_message · messages + per_round) / min(cores, parallel · n)

The limit runs have compute alone, which tells it apart from bytes; two workloads with few and many bytes tell bytes from
messages. Errors count relative to the measured time, or slow workloads would decide alone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from umiak.bench import workloads
from umiak.bench.driver import Say
from umiak.bench.turns import Stage

WORKLOADS = ("quick_start", "ctr")
MEASURED = (1, 2, 3, 6)
FITTED = (1, 2, 3)
PREDICTED = (10, 30, 100, 300, 1000)
TOLERANCE = 0.15
PARALLEL_STEP = 0.05

Case = tuple[int, str]
"""Workers, system."""


@dataclass(frozen=True)
class Point:
    """Seconds a round takes; bytes are those one trainer sends and receives in it, 0 in a limit run, with so many servers."""

    workload: str
    workers: int
    seconds: float
    bytes: float
    messages: float

    @property
    def communicates(self) -> bool:
        return self.bytes > 0


@dataclass(frozen=True)
class Costs:
    """CPU seconds, and how many cores a worker alone keeps busy, per workload where they depend on it."""

    compute: dict[str, float]
    parallel: dict[str, float]
    per_byte: float
    per_message: float
    per_round: float
    cores: int

    def exchange(self, messages: float, bytes_: float) -> float:
        """CPU seconds of one worker's part in the exchange of a round."""
        return self.per_byte * bytes_ + self.per_message * messages + self.per_round

    def here(self, workload: str, workers: int, bytes_: float, messages: float) -> float:
        """Seconds of a round of so many workers on this machine."""
        work = self.compute[workload] + (self.exchange(messages, bytes_) if bytes_ else 0.0)
        return workers * work / min(self.cores, self.parallel[workload] * workers)

    def apart(self, workload: str, workers: int, bytes_: float, network: Link) -> float:
        """Seconds of a round when each worker has a machine like this one to itself."""
        here = (self.compute[workload] + self.exchange(workers, bytes_)) / self.parallel[workload]
        away = bytes_ * (workers - 1) / workers / network.bytes_per_second + 2 * network.latency
        return here + away


@dataclass(frozen=True)
class Link:
    gbit: float
    microseconds: float

    @property
    def bytes_per_second(self) -> float:
        return self.gbit * 1e9 / 8

    @property
    def latency(self) -> float:
        return self.microseconds * 1e-6


def fit(points: Sequence[Point], cores: int) -> Costs:
    """Least squares of relative errors, costs never negative; `parallel` is tried in steps from 1 to the cores."""
    names = sorted({point.workload for point in points})
    steps = np.arange(1.0, cores + 0.01, PARALLEL_STEP)
    best: tuple[float, Costs] | None = None
    for tried in product(steps, repeat=len(names)):
        parallel = dict(zip(names, map(float, tried), strict=True))
        rows = np.array([_weights(point, names, parallel[point.workload], cores) for point in points])
        found, error = _not_negative(rows, np.ones(len(points)))
        if best is None or error < best[0]:
            *compute, per_byte, per_message, per_round = map(float, found)
            by_name = dict(zip(names, compute, strict=True))
            best = error, Costs(by_name, parallel, per_byte, per_message, per_round, cores)
    assert best is not None
    return best[1]


def _weights(point: Point, names: Sequence[str], parallel: float, cores: int) -> list[float]:
    """What each cost contributes to a point's time, as a share of the time measured."""
    share = point.workers / min(cores, parallel * point.workers) / point.seconds
    exchange = [point.bytes, point.messages, 1.0] if point.communicates else [0.0, 0.0, 0.0]
    return [share * weight for weight in (*(float(point.workload == name) for name in names), *exchange)]


def _not_negative(rows: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, float]:
    """Least squares; a cost that came out negative is taken to be zero and the rest fitted again."""
    free = np.ones(rows.shape[1], bool)
    found = np.zeros(rows.shape[1])
    while free.any():
        scale = np.abs(rows[:, free]).max(0)
        scale[scale == 0] = 1.0
        found[:] = 0.0
        found[free] = np.linalg.lstsq(rows[:, free] / scale, wanted, rcond=None)[0] / scale
        if (found >= 0).all():
            break
        free &= found > 0
    return found, float(((rows @ found - wanted) ** 2).sum())


def measure(rounds: int, seconds: float, say: Say) -> list[Point]:
    """Every size in every round, so that all see the same moods of the machine."""
    return [point for name in WORKLOADS for point in _measure(name, rounds, seconds, say)]


def _measure(name: str, rounds: int, seconds: float, say: Say) -> list[Point]:
    cases = list(product(MEASURED, ("limit", "umiak")))
    runs: dict[Case, list[dict[str, Any]]] = {case: [] for case in cases}
    with tempfile.TemporaryDirectory(prefix="umiak-bench-") as scratch, Stage() as stage:
        actors = {}
        for workers in MEASURED:
            data = Path(scratch, str(workers))
            data.mkdir()
            workloads.write(workloads.WORKLOADS[name], workers, data)
            say(f"{name} with {workers} workers: starting")
            for system in ("limit", "umiak"):
                actors[workers, system] = stage.start(name, system, workers, data)
        for number in range(rounds):
            for workers, system in cases:
                result = actors[workers, system].turn(seconds)
                runs[workers, system].append(result)
                took, others = 1e3 / result["rounds_per_s"], result["others"]
                say(
                    f"{name} {system:<6} {workers} workers {number + 1}/{rounds} {took:9.2f} ms a round, others {others:.0%}"
                )
    took = steady({case: [1 / run["rounds_per_s"] for run in found] for case, found in runs.items()})
    points = []
    for workers, system in cases:
        alone = runs[workers, "limit"][0]
        size = alone["sent_per_round"] + alone["received_per_round"] if system == "umiak" else 0.0
        points.append(Point(name, workers, took[workers, system], size, alone["messages_per_round"]))
    return points


def steady(times: Mapping[Case, Sequence[float]]) -> dict[Case, float]:
    """The median of each case, after what made a whole round faster or slower than the others was taken out of it."""
    medians = {case: median(found) for case, found in times.items()}
    rounds = range(min(len(found) for found in times.values()))
    moods = [median(found[number] / medians[case] for case, found in times.items()) for number in rounds]
    return {case: median(found[number] / moods[number] for number in rounds) for case, found in times.items()}


def check(points: Sequence[Point], costs: Costs) -> list[tuple[Point, float]]:
    """What was measured but not fitted, beside the prediction for it."""
    held_out = [point for point in points if point.workers not in FITTED and point.communicates]
    return [(point, costs.here(point.workload, point.workers, point.bytes, point.messages)) for point in held_out]


def report(points: Sequence[Point], costs: Costs, network: Link, batch_sizes: dict[str, int]) -> str:
    lines = ["the cost of a round, in CPU time of one worker and its server:"]
    lines += [
        f"  compute, {name}: {1e3 * value:.2f} ms; alone it keeps {costs.parallel[name]:.2f} of {costs.cores} cores busy"
        for name, value in costs.compute.items()
    ]
    lines.append(
        f"  a byte: {1e9 * costs.per_byte:.2f} ns, a message: {1e6 * costs.per_message:.0f} µs, "
        f"taking part in an exchange: {1e6 * costs.per_round:.0f} µs"
    )
    lines += ["", "workload      workers    measured   predicted      error"]
    for point in points:
        if point.communicates:
            predicted = costs.here(point.workload, point.workers, point.bytes, point.messages)
            error = predicted / point.seconds - 1
            kind = "" if point.workers in FITTED else f"  not fitted; at most {TOLERANCE:.0%} is asked for"
            lines.append(
                f"{point.workload:<13} {point.workers:>7} {1e3 * point.seconds:>8.1f} ms {1e3 * predicted:>8.1f} ms "
                f"{error:>+10.1%}{kind}"
            )
    lines += ["", *_assumptions(costs, network), "", "workload      workers   ms a round      samples/s   of the ideal"]
    for name in costs.compute:
        size = next(point.bytes for point in points if point.workload == name and point.communicates)
        for workers in PREDICTED:
            took = costs.apart(name, workers, size, network)
            rate = workers * batch_sizes[name] / took
            ideal = costs.compute[name] / costs.parallel[name] / took
            lines.append(f"{name:<13} {workers:>7} {1e3 * took:>12.1f} {rate:>14,.0f} {ideal:>14.2f}")
    return "\n".join(lines)


def _assumptions(costs: Costs, network: Link) -> list[str]:
    return [
        f"prediction for {network.gbit:g} Gbit/s and {network.microseconds:g} µs one way, assuming:",
        f"  every worker has a machine like this one, {costs.cores} cores, to itself, and runs a trainer and a server",
        "  the same batch per trainer, so the same bytes, spread evenly over all servers",
        "  all machines send and receive at full speed at once: no shared switch, no slow machine to wait for",
        "  the bytes of a round travel after the computation, not during it",
        "  ideal: the computation alone, with communication free",
    ]
