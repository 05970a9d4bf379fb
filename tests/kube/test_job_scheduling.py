"""Jobs whose pods cannot start, or not together: what the user is told, and that nothing trains half."""

from __future__ import annotations

import time
from pathlib import Path

from tests.kube.cluster import Cluster
from tests.kube.jobs import TrainingJob
from tests.kube.namespace import Namespace
from tests.kube.places import NODES


def test_workers_that_start_a_minute_apart_train_as_if_together(
    cluster: Cluster, namespace: Namespace, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    """One node is open to the job, and holds one pod only: the other starts when more nodes are opened."""
    pod = {"nodeSelector": {namespace.name: "open"}}
    job = TrainingJob.write(namespace, tmp_path, memory=_two_thirds(cluster), pod=pod)
    try:
        cluster.kubectl("label", "node", NODES[0], f"{namespace.name}=open")
        job.submit()
        job.until("one pod to run", lambda: sorted(namespace.phases().values()) == ["Pending", "Running"])
        time.sleep(60)
        assert sorted(namespace.phases().values()) == ["Pending", "Running"]
        cluster.kubectl("label", "node", *NODES[1:], f"{namespace.name}=open")
        job.wait()
    finally:
        cluster.kubectl("label", "node", *NODES, f"{namespace.name}-")
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
    # A node may first have to hear that it may read the volume's claim.
    missing = "umiak/runtime:never-built cannot be pulled: there is no such image"
    job.until("a diagnosis", lambda: any(missing in problem["what"] for problem in job.status()["problems"][:1]))
    assert "correct image in job.yaml" in job.run("status")
    job.delete()


def _two_thirds(cluster: Cluster) -> str:
    """So much memory that a node holds one such pod but not two."""
    allocatable = cluster.get("api/v1/nodes/n1")["status"]["allocatable"]["memory"]
    return f"{int(allocatable.removesuffix('Ki')) * 2 // 3 // 1024}Mi"
