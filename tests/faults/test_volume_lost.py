"""A volume that stays away ends the job for now, with the file and what to do; nothing there has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.conftest import WORKERS
from tests.faults.faulty import FaultyVolume
from tests.faults.volume_jobs import kill_a_trainer, local_job
from tests.pods import Pods
from tests.processes import snapshot_bytes, umiak


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


@pytest.mark.timeout(300)
def test_a_disk_that_never_takes_a_file_is_named_and_the_exit_code_says_try_again(
    tmp_path: Path, volume: FaultyVolume
) -> None:
    with volume.error("EIO", ("fsync",)):
        said = umiak(*local_job(tmp_path / "config.py", volume.path / "run"), code=75, timeout=200)
    assert str(volume.path / "run") in said and "Input/output error" in said
    assert len(said.splitlines()) == 2, "it tells that it tries again, and how that ended"
