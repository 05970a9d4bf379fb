"""Jobs whose pods cannot start, or not together: what the user is told, and that nothing trains half."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.kube.cluster import Cluster
from tests.kube.jobs import TrainingJob
from tests.kube.namespace import Namespace
from tests.kube.places import NODES


@pytest.mark.usefixtures("alone")
def test_workers_that_start_a_minute_apart_train_as_if_together(
    cluster: Cluster, namespace: Namespace, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    """Two nodes are closed, and the third holds one pod only: the others start when it opens again."""
    job = TrainingJob.write(namespace, tmp_path, memory=_two_thirds(cluster))
    for node in NODES[1:]:
        cluster.kubectl("cordon", node)
    try:
        job.submit()
        job.until("one pod to run", lambda: sorted(namespace.phases().values()) == ["Pending", "Pending", "Running"])
        time.sleep(60)
        assert sorted(namespace.phases().values()) == ["Pending", "Pending", "Running"]
    finally:
        for node in NODES[1:]:
            cluster.kubectl("uncordon", node)
    job.wait()
    job.assert_same(expected)
    job.delete()


def test_a_worker_that_fits_nowhere_is_named_with_what_is_missing(namespace: Namespace, tmp_path: Path) -> None:
    job = TrainingJob.write(namespace, tmp_path, cpu="500")
    said = job.run("submit")
    job.until("a diagnosis", lambda: bool(job.status()["problems"]))
    status = job.status()
    assert status["state"] == "waiting"
    assert "no node takes it" in status["problems"][0]["what"] and "n1" in status["problems"][0]["what"], said
    assert job.run("wait", "--timeout=1s", code=75)
    job.delete()


def test_a_wrong_image_is_named(namespace: Namespace, tmp_path: Path) -> None:
    job = TrainingJob.write(namespace, tmp_path, image="umiak/runtime:never-built")
    job.submit()
    job.until("a diagnosis", lambda: bool(job.status()["problems"]))
    first = job.status()["problems"][0]
    assert "umiak/runtime:never-built cannot be pulled: there is no such image" in first["what"]
    assert "correct image in job.yaml" in job.run("status")
    job.delete()


def _two_thirds(cluster: Cluster) -> str:
    """So much memory that a node holds one such pod but not two."""
    allocatable = cluster.get("node", "n1")["status"]["allocatable"]["memory"]
    return f"{int(allocatable.removesuffix('Ki')) * 2 // 3 // 1024}Mi"
