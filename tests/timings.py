"""What a round costs a trainer's main thread for knowing where its time goes: `python -m tests.timings` prints it."""

from __future__ import annotations

import statistics
from time import perf_counter, thread_time_ns

from umiak.trainer.timings import Timings

ROUNDS = 20_000


def microseconds(rounds: int = ROUNDS) -> float:
    """Of processor time for a round: what session.py and trainer.py of umiak/trainer do for it. The median of some turns."""
    found = []
    for _ in range(9):
        timings = Timings()
        outcomes = [0.001, 0.002, 0.003]
        before = thread_time_ns()
        for _ in range(rounds):
            begun = perf_counter()
            timings.waited_for_data(begun)
            begun = perf_counter()
            sent = perf_counter()
            ahead = perf_counter()
            timings.exchanged(begun, sent, ahead, max([waited for waited in outcomes]))
        found.append((thread_time_ns() - before) / rounds / 1000)
    return statistics.median(found)


def report_microseconds(rounds: int = ROUNDS) -> float:
    """For asking whether it is time to tell, which happens twice a second at most."""
    timings = Timings()
    timings.exchanged(0.0, 0.0, 0.0, 0.0)
    timings.restart()
    before = thread_time_ns()
    for number in range(rounds):
        timings.report(0, number, 0, 0)
    return (thread_time_ns() - before) / rounds / 1000


if __name__ == "__main__":
    print(f"{microseconds():.2f} µs a round to measure it; the limit is 2 µs")
    print(f"{report_microseconds():.2f} µs to find that nothing is to be told yet, at most twice a second")
