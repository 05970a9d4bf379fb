"""More trainers than cores: which core each of them computes on, in real processes and in a real job."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import umiak
from umiak.bench.run import free_ports
from umiak.data import Columns
from umiak.pserver.affinity import LONG_SECONDS, Affinity, choose
from umiak.wire import hello

CORES = os.sched_getaffinity(0)
FIRST = min(CORES)


@pytest.fixture
def processes() -> Iterator[list[int]]:
    """One more than there are cores."""
    started = [
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(len(CORES) + 1)
    ]
    yield [process.pid for process in started]
    for process in started:
        process.kill()
        process.communicate()


def cores_of(processes: list[int]) -> list[set[int]]:
    return [os.sched_getaffinity(pid) for pid in processes]


def test_the_core_of_one_that_waits_goes_to_one_of_two_that_share_another() -> None:
    assert choose(1, {7: 0, 8: 0}) in (7, 8)
    assert choose(1, {7: 0, 8: 1}) is None
    assert choose(1, {7: 0, 8: 0, 9: 1}) is None
    assert choose(1, {7: 0, 8: 0, 9: 0, 10: 1}) in (7, 8, 9)
    assert choose(1, {}) is None


@pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")
def test_a_round_pins_every_trainer_and_its_end_releases_them(processes: list[int]) -> None:
    affinity = Affinity()
    affinity.pin(processes)
    assert {core for [core] in cores_of(processes)} == CORES
    assert cores_of(processes)[0] == cores_of(processes)[-1] == {FIRST}
    affinity.wait(processes[1], [processes[0], *processes[2:]])
    assert cores_of(processes)[0] != cores_of(processes)[-1]
    affinity.pin(processes)
    assert cores_of(processes)[0] == cores_of(processes)[-1] == {FIRST}
    affinity.release()
    assert cores_of(processes) == [CORES] * len(processes)


def test_a_core_for_each_needs_no_pinning(processes: list[int]) -> None:
    affinity = Affinity()
    affinity.pin(processes[1:])
    assert not affinity.pinned and cores_of(processes) == [CORES] * len(processes)


def test_who_was_told_where_to_run_stays_there(processes: list[int]) -> None:
    os.sched_setaffinity(processes[0], {FIRST})
    expected = cores_of(processes)
    if len(CORES) > 1:
        Affinity().pin(processes)
        assert cores_of(processes) == expected


def test_one_that_has_ended_releases_the_others(processes: list[int]) -> None:
    affinity = Affinity()
    affinity.pin(processes)
    with subprocess.Popen(["true"]) as gone:
        pass
    affinity.pin([*processes[1:], gone.pid])
    assert not affinity.pinned and cores_of(processes) == [CORES] * len(processes)


def test_threads_of_one_process_are_not_pinned() -> None:
    affinity = Affinity()
    affinity.pin([os.getpid()] * (len(CORES) + 1))
    assert not affinity.pinned and os.sched_getaffinity(0) == CORES


@pytest.mark.slow
@pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")
@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_trainers_of_a_job_are_pinned_in_long_rounds_and_not_in_a_test(tmp_path: Path, transport: str) -> None:
    seen = tmp_path / "seen"

    class Slow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.slope = nn.Parameter(torch.zeros(1))

        def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
            time.sleep(2 * LONG_SECONDS)
            with seen.open("a") as file:
                cores = len(os.sched_getaffinity(0))
                file.write(f"{'train' if self.training else 'test'} {cores}\n")
            return self.slope * batch["x"]

    workers, rounds = len(CORES) + 1, 6
    data = Columns({"x": np.ones(workers * rounds, np.float32)})
    config = umiak.Config(
        model=Slow,
        train=data,
        test=data,
        loss=lambda output, batch: (output - batch["x"]).square().mean(),
        optimizer=umiak.SGD(0.1),
        batch_size=1,
    )
    where = {"transport": transport, "port": free_ports(workers)} if transport == "tcp" else {}
    umiak.train(config, workers=workers, passes=1, out=tmp_path / "out", quiet=True, **where)
    lines = seen.read_text().split("\n")
    # How long a round takes is known from the end of the first to that of the second.
    assert lines.count("train 1") == workers * (rounds - 2)
    assert lines.count("test 1") == 0 and lines.count(f"test {len(CORES)}") == workers * rounds


def test_a_process_is_known_where_its_id_means_the_same_and_nowhere_else() -> None:
    name = hello.process()
    assert hello.process_id(name) == os.getpid()
    boot, namespace, number = name.split(":")
    for other in (f"{boot}x:{namespace}:{number}", f"{boot}:1:{number}", f"{boot}:{namespace}:-1", "", "1", "::1"):
        assert hello.process_id(other) == 0
    assert hello.process_id(f"{boot}:{namespace}:{2**63}") == 0
