"""Whatever happens to pods, the job goes on and ends with the very bytes of `umiak train` on one machine."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pods import Pods, job, process
from tests.processes import TINY, snapshot_bytes, umiak

PASSES = 3
FLAGS = (f"--passes={PASSES}", "--checkpoint_minutes=0.01", "--log_period=1")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The snapshots of a local job; its config has the name that it has in a pod."""
    directory = tmp_path_factory.mktemp("undisturbed")
    (directory / "config.py").write_text(TINY.read_text())
    umiak("train", directory / "config.py", "--workers", "3", "--out", directory / "run", *FLAGS)
    return snapshot_bytes(directory / "run")


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    with job(tmp_path, 3, *FLAGS, pause=0.05) as started:
        yield started


def test_pods_write_what_processes_on_one_machine_write(pods: Pods, undisturbed: dict[str, bytes]) -> None:
    pods.pause = 0.0
    pods.start()
    assert pods.wait() == [0, 0, 0]
    assert snapshot_bytes(pods.out) == undisturbed
    assert (pods.out / "curves.png").exists() and (pods.out / "metrics.jsonl").exists()
    for index in range(3):
        for name in ("train.log", "server.log", "worker.log"):
            assert (pods.out / f"node_{index}" / name).stat().st_size or name == "worker.log"
        assert not (pods.directory / f"termination-{index}").exists()
    assert {"start", "phase", "round", "pass", "checkpoint", "done"} <= {e["event"] for e in pods.events()}
    log = pods.log(1).read_text()
    assert " Pass=0 " in log and "@server I" in log, "what the trainer and the server log is on standard output too"


def test_without_the_pod_of_the_coordinator_the_others_wait_for_another(
    pods: Pods, undisturbed: dict[str, bytes]
) -> None:
    pods.start()
    pods.until(lambda: pods.events(0, "checkpoint"))
    pods.kill(0)
    pods.until(lambda: "coordinator is gone" in pods.log(1).read_text())
    pods.start(0)
    assert pods.wait() == [0, 0, 0]
    assert snapshot_bytes(pods.out) == undisturbed


@pytest.mark.timeout(600)
def test_pods_killed_at_random_moments_change_no_byte(pods: Pods, undisturbed: dict[str, bytes]) -> None:
    draw = random.Random(5)
    pods.pause = 0.15  # five restarts must not outlast the training
    pods.start()
    for number in range(5):
        pods.until(lambda: pods.rounds() > 1)
        victim = draw.randrange(3)
        pods.kill(victim)
        before = len(pods.events())
        pods.start(victim)
        pods.until(lambda: any(e["event"] == "round" for e in pods.events()[before:]), 60)  # noqa: B023
        print(f"kill {number}: worker {victim}")
    assert pods.wait() == [0, 0, 0], "a survivor's pod ended"
    assert snapshot_bytes(pods.out) == undisturbed


def test_killed_processes_cost_no_pod(pods: Pods, undisturbed: dict[str, bytes]) -> None:
    pods.start()
    for index, who in ((2, "trainer"), (1, "server"), (0, "coordinator")):
        pods.until(lambda: pods.rounds() > 1)
        os.kill(process(pods, index, who), signal.SIGKILL)
        before = len(pods.events())
        pods.until(lambda: any(e["event"] == "round" for e in pods.events()[before:]))  # noqa: B023
    assert pods.wait() == [0, 0, 0]
    assert snapshot_bytes(pods.out) == undisturbed
    causes = [event["cause"] for event in pods.events(0, "restart")]
    assert causes[0].startswith("trainer of worker 2: killed by signal 9")
    assert causes[1].startswith("pserver of worker 1: killed by signal 9")
