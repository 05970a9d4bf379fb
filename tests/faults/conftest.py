"""A volume that misbehaves, and what undisturbed jobs give."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.faulty import FaultyVolume, faulty_volume
from tests.pods import Pods, job
from tests.processes import TINY, snapshot_bytes, umiak

PASSES = 3
WORKERS = 2
FLAGS = (f"--passes={PASSES}", "--checkpoint_minutes=0.02", "--log_period=5")


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[FaultyVolume]:
    with faulty_volume(tmp_path) as made:
        yield made


@pytest.fixture
def pods(tmp_path: Path, volume: FaultyVolume) -> Iterator[Pods]:
    """A job whose output is on that volume."""
    with job(tmp_path, WORKERS, *FLAGS, pause=0.1) as started:
        yield started


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The snapshots of a local job on a good disk; made once for all processes that share these tests."""
    base = tmp_path_factory.getbasetemp()
    directory = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "undisturbed"
    directory.mkdir(exist_ok=True)
    out, config = directory / "run", directory / "config.py"
    with (directory / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not out.exists():
            config.write_text(TINY.read_text())
            umiak("train", config, "--workers", str(WORKERS), "--out", out, *FLAGS)
    return snapshot_bytes(out)
