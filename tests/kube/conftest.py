"""The cluster of a test run, and a namespace for each test.

A cluster that was started by hand (`python -m tests.kube up`) is used and left running; else the run starts its own.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube import cluster as clusters
from tests.kube.cluster import Cluster
from tests.kube.jobs import PASSES, WORKERS
from tests.kube.namespace import Namespace
from tests.kube.record import Process
from tests.processes import TINY, snapshot_bytes, umiak


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take longest come first: with several processes, none of them is left with a long one at the end."""
    longest = (
        "test_job_outages",
        "test_volume_lost",
        "test_whole_way",
        "test_tutorial",
        "test_job_client",
        "test_volume_stalls",
        "test_processes",
        "test_job_partitions",
        "test_job_recovery",
        "test_volume_errors",
        "test_data_output",
        "test_job_others",
    )
    items.sort(key=lambda item: next((at for at, name in enumerate(longest) if name in item.nodeid), len(longest)))


def pytest_sessionfinish() -> None:
    """The cluster of a run ends with it; the processes that share its tests (xdist) do not end it."""
    mine = clusters.running(Process.this())
    if mine:
        clusters.down(mine)


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    run = Process.of(os.getppid()) if "PYTEST_XDIST_WORKER" in os.environ else None
    return clusters.of_run(run or Process.this())


@pytest.fixture
def default_namespace(cluster: Cluster) -> Iterator[None]:
    """For a test that uses the namespace `default`: one at a time of those that run side by side."""
    with cluster.one_at_a_time("default"):
        yield


@pytest.fixture
def small_volume(cluster: Cluster) -> Iterator[Path]:
    """The volume that is soon full, for one test at a time, and empty again after it."""
    with cluster.one_at_a_time("small"):
        try:
            yield cluster.small_volume
        finally:
            for path in cluster.small_volume.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[Namespace]:
    made = Namespace.create(cluster)
    try:
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="session")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The snapshots that the small config gives as processes of this machine: what pods give must be the same bytes."""
    base = tmp_path_factory.getbasetemp()
    directory = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "local"
    directory.mkdir(exist_ok=True)
    out, config = directory / "out", directory / "config.py"
    with (directory / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not out.exists():
            shutil.copy(TINY, config)
            umiak("train", config, "--workers", str(WORKERS), "--passes", str(PASSES), "--out", out)
    found = snapshot_bytes(out)
    assert found
    return found
