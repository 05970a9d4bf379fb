"""A volume gives errors for some seconds: nobody restarts for a write, and no checkpoint is condemned for a read."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.faults.conftest import WORKERS
from tests.faults.faulty import FaultyVolume
from tests.faults.volume import READING, WRITING
from tests.faults.volume_jobs import first_round_after_restart, kill_a_trainer, local_job, restarts
from tests.pods import Pods
from tests.processes import kill_tree, snapshot_bytes, start, wait_for

FAULT_SECONDS = 5.0


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
