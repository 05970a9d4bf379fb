"""The table workload: look rows up by id and update them, on one core, against a compiled loop that knows their numbers.

10 million rows of 16 floats with AdaGrad's state beside them; a step is 100,000 different rows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from umiak.bench.run import Run
from umiak.pserver.intrinsics import AHEAD, LINE, prefetch

ROWS, DIM, STEP, BATCHES = 10_000_000, 16, 100_000, 8
RATE, EPSILON = np.float32(1e-2), np.float32(1e-10)


def limit(run: Run) -> dict[str, Any]:
    """The same bytes, values and state side by side, with nothing to find; rows are asked for ahead, as the table does."""
    memory = np.full((ROWS, 2 * DIM), 0.1, np.float32)
    numbers = [np.random.default_rng(seed).permutation(ROWS)[:STEP] for seed in range(BATCHES)]
    gradients = np.random.default_rng(0).standard_normal((STEP, DIM), np.float32)
    out = np.empty((STEP, DIM), np.float32)

    def step(batch: int) -> None:
        _gather(memory, numbers[batch], out)
        _adagrad(memory, numbers[batch], gradients)

    return _rate(run, step)


def umiak(run: Run) -> dict[str, Any]:
    """The table of a parameter server, its rows found by 64-bit ids."""
    from umiak.pserver.optimizers import Clock
    from umiak.pserver.table import Table
    from umiak.spec.optim import AdaGrad

    ids = np.random.default_rng(0).permutation(np.arange(ROWS, dtype=np.int64) * 1_000_003)
    table = Table("bench", DIM, 1, {"kind": "normal", "mean": 0.0, "std": 0.01}, AdaGrad(lr=float(RATE)))
    for start in range(0, ROWS, STEP):
        table.locate(ids[start : start + STEP])
    wanted = [np.random.default_rng(seed).permutation(ids)[:STEP] for seed in range(BATCHES)]
    gradients = np.random.default_rng(0).standard_normal((STEP, DIM), np.float32)
    out = np.empty((STEP, DIM), np.float32)
    steps = 0

    def step(batch: int) -> None:
        nonlocal steps
        steps += 1
        rows = table.locate(wanted[batch])
        table.gather(rows, out)
        table.add(rows, gradients)
        table.step(1, Clock(steps, steps, 0))

    return _rate(run, step)


def _rate(run: Run, step: Callable[[int], None]) -> dict[str, Any]:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for batch in range(BATCHES):
        step(batch)
    began, done = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < run.seconds:
        step(done % BATCHES)
        done += 1
    run.watch.stop()
    return {"samples_per_s": done * STEP / passed, "unit": "rows/s"}


@numba.njit(cache=True, error_model="numpy")
def _ask(memory: np.ndarray, numbers: np.ndarray, i: int, floats: int) -> None:
    if i + AHEAD < numbers.size:
        for offset in range(0, 4 * floats, LINE):
            prefetch(memory, numbers[i + AHEAD], offset)


@numba.njit(cache=True, error_model="numpy")
def _gather(memory: np.ndarray, numbers: np.ndarray, out: np.ndarray) -> None:
    for i in range(numbers.size):
        _ask(memory, numbers, i, DIM)
        for c in range(DIM):
            out[i, c] = memory[numbers[i], c]


@numba.njit(cache=True, error_model="numpy", fastmath=True)
def _adagrad(memory: np.ndarray, numbers: np.ndarray, gradients: np.ndarray) -> None:
    for i in range(numbers.size):
        _ask(memory, numbers, i, 2 * DIM)
        row = numbers[i]
        for c in range(DIM):
            grad = gradients[i, c]
            total = memory[row, DIM + c] + grad * grad
            memory[row, DIM + c] = total
            memory[row, c] -= RATE * grad / (np.sqrt(total) + EPSILON)
