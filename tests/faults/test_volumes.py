"""The shared volume fails, hangs or is slow while pods train: they end with the bytes of a quiet run, or say why and resume."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import FLAGS, WORKERS
from tests.faults.faulty import FaultyVolume
from tests.faults.volume import READING, WRITING
from tests.pods import Pods, job, process
from tests.processes import TINY, kill_tree, snapshot_bytes, start, umiak, wait_for

FAULT_SECONDS = 5.0
STALL_SECONDS = 60.0


@pytest.fixture
def pods(tmp_path: Path, volume: FaultyVolume) -> Iterator[Pods]:
    with job(tmp_path, WORKERS, *FLAGS, pause=0.1) as started:
        yield started


def restarts(pods: Pods) -> list[str]:
    return [event["cause"] for event in pods.events(0, "restart")]


def lost_coordinators(pods: Pods) -> list[str]:
    """What pods said when they took the coordinator for gone."""
    lines = [line for index in range(WORKERS) for line in pods.log(index).read_text().splitlines()]
    return [line for line in lines if "coordinator is gone" in line]


def first_round_after_restart(pods: Pods) -> int:
    events = pods.events()
    restart = next(number for number, event in enumerate(events) if event["event"] == "restart")
    return int(next(event["round"] for event in events[restart:] if event["event"] == "round"))


def kill_a_trainer(pods: Pods, volume: FaultyVolume) -> None:
    """And wait until the checkpoint that all must read again has met the volume's fault."""
    met = volume.met()
    os.kill(process(pods, 1, "trainer"), signal.SIGKILL)
    pods.until(lambda: restarts(pods) and volume.met() > met)


@pytest.mark.parametrize("name", ["EIO", "ESTALE"])
def test_checkpoints_are_not_condemned_because_the_volume_cannot_be_read(
    name: str, pods: Pods, volume: FaultyVolume, undisturbed: dict[str, bytes]
) -> None:
    """A trainer is killed, and while all read the checkpoint again, nothing can be read."""
    pods.start()
    pods.until(lambda: len(pods.events(0, "checkpoint")) >= 2)
    committed = pods.events(0, "checkpoint")[-1]["round"]
    with volume.error(name, READING, "/output/checkpoints/*"):
        kill_a_trainer(pods, volume)
        time.sleep(FAULT_SECONDS)
    assert pods.wait() == [0] * WORKERS
    assert not list(volume.source.rglob("manifest.damaged"))
    assert first_round_after_restart(pods) >= committed, "it began again at an older round"
    assert snapshot_bytes(pods.out) == undisturbed


@pytest.mark.parametrize("name", ["EIO", "ESTALE"])
def test_a_volume_that_cannot_be_written_for_seconds_ends_no_job(
    name: str, pods: Pods, volume: FaultyVolume, undisturbed: dict[str, bytes]
) -> None:
    pods.start()
    pods.until(lambda: pods.events(0, "checkpoint"))
    with volume.error(name, WRITING):
        time.sleep(FAULT_SECONDS)
    assert pods.wait() == [0] * WORKERS
    assert restarts(pods) == []
    assert snapshot_bytes(pods.out) == undisturbed


@pytest.mark.timeout(300)
def test_a_volume_that_hangs_for_a_minute_costs_a_minute_and_no_restart(
    pods: Pods, volume: FaultyVolume, undisturbed: dict[str, bytes]
) -> None:
    pods.start()
    pods.until(lambda: pods.events(0, "checkpoint"))
    with volume.hang():
        time.sleep(STALL_SECONDS)
    assert pods.wait() == [0] * WORKERS
    assert restarts(pods) == [] and lost_coordinators(pods) == []
    assert snapshot_bytes(pods.out) == undisturbed


@pytest.mark.timeout(300)
def test_a_slow_volume_restarts_nobody(tmp_path: Path, volume: FaultyVolume, undisturbed: dict[str, bytes]) -> None:
    """Every answer takes 100 ms, and a file takes many: one pass is enough of it."""
    with job(tmp_path, WORKERS, "--passes=1", "--log_period=100") as pods:
        with volume.slow(0.1):
            pods.start()
            assert pods.wait(seconds=200) == [0] * WORKERS
        assert restarts(pods) == [] and lost_coordinators(pods) == []
        first = {name: data for name, data in undisturbed.items() if name.startswith("pass-00000/")}
        assert snapshot_bytes(pods.out) == first


@pytest.mark.timeout(300)
def test_a_volume_that_stays_unreadable_ends_the_job_for_now_and_changes_nothing(
    pods: Pods, volume: FaultyVolume, undisturbed: dict[str, bytes]
) -> None:
    pods.start()
    pods.until(lambda: len(pods.events(0, "checkpoint")) >= 2)
    with volume.error("EIO", ("open", "read"), "/output/checkpoints/*"):
        kill_a_trainer(pods, volume)
        before = {path: path.stat().st_mtime_ns for path in volume.source.rglob("manifest*")}
        assert set(pods.wait(seconds=200)) == {75}
    cause = pods.termination(0)["cause"]
    assert "checkpoints/round-" in cause and "--resume_round" in cause
    assert {path: path.stat().st_mtime_ns for path in volume.source.rglob("manifest*")} == before
    pods.start()
    assert pods.wait() == [0] * WORKERS
    assert snapshot_bytes(pods.out) == undisturbed


def local_job(config: Path, out: Path) -> tuple[str | Path, ...]:
    config.write_text(TINY.read_text())
    return ("train", config, "--workers", str(WORKERS), "--out", out, *FLAGS)


def test_a_local_job_survives_a_disk_that_cannot_be_written_for_seconds(
    tmp_path: Path, volume: FaultyVolume, undisturbed: dict[str, bytes]
) -> None:
    out = volume.path / "run"
    training = start(*local_job(tmp_path / "config.py", out), pause=0.1)
    try:
        wait_for(lambda: list(out.glob("checkpoints/*/manifest.json")), training)
        with volume.error("EIO", WRITING):
            time.sleep(FAULT_SECONDS)
        said = training.communicate(timeout=90)
    finally:
        kill_tree(training.pid)
    assert training.returncode == 0, said
    assert snapshot_bytes(out) == undisturbed


@pytest.mark.timeout(300)
def test_a_disk_that_never_takes_a_file_is_named_and_the_exit_code_says_try_again(
    tmp_path: Path, volume: FaultyVolume
) -> None:
    with volume.error("EIO", ("fsync",)):
        said = umiak(*local_job(tmp_path / "config.py", volume.path / "run"), code=75, timeout=200)
    assert str(volume.path / "run") in said and "Input/output error" in said
    assert len(said.splitlines()) == 2, "it tells that it tries again, and how that ended"
