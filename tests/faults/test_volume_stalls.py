"""A volume hangs for a minute, or answers slowly: that is all it costs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.faults.conftest import WORKERS
from tests.faults.faulty import FaultyVolume
from tests.faults.volume_jobs import lost_coordinators, restarts
from tests.pods import Pods, job
from tests.processes import snapshot_bytes

STALL_SECONDS = 60.0


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
