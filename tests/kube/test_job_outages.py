"""A node lost or the API server away while a job trains: the model must not notice. On a cluster of their own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube import cluster as clusters
from tests.kube import images
from tests.kube.cluster import CLUSTERS, Cluster
from tests.kube.jobs import TrainingJob
from tests.kube.namespace import Namespace
from tests.kube.node import GRACE_SECONDS
from tests.kube.record import Process


@pytest.fixture(scope="module")
def cluster(cluster: Cluster) -> Iterator[Cluster]:
    """Beside that of the run, which other tests use meanwhile."""
    with cluster.one_at_a_time(CLUSTERS):
        made = clusters.up(owner=Process.this())
    try:
        made.publish(images.RUNTIME, images.ensure())
        yield made
    finally:
        with cluster.one_at_a_time(CLUSTERS):
            clusters.down(made)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_node_gone_silent_is_named_with_the_command_that_frees_its_worker(
    cluster: Cluster, namespace: Namespace, tmp_path: Path, expected: dict[str, bytes], victim: int
) -> None:
    """When its link heals, the pod that was there does not take back the place that its successor has."""
    job = TrainingJob.write(namespace, tmp_path, pause=0.5)
    job.submit()
    job.until_training()
    node = job.pod(victim)["spec"]["nodeName"]
    cluster.set_link(node, up=False)
    try:
        job.until("a diagnosis", lambda: _silent(job, node), GRACE_SECONDS + 60)
        assert f"kubectl delete node {node}" in job.run("status")
        assert sorted(name for name, ready in cluster.ready().items() if not ready) == [node]
        cluster.kubectl("delete", "node", node)
        job.until("a pod elsewhere", lambda: _elsewhere(job, victim, node), 120)
        successor = job.pod(victim)["metadata"]["uid"]
        job.until("training without the lost pod", lambda: _trains(job, victim), 120)
        cluster.set_link(node, up=True)
        job.wait()
        assert job.pod(victim)["metadata"]["uid"] == successor
    finally:
        cluster.set_link(node, up=True)
        cluster.restart_node(node)
    job.assert_same(expected)
    job.delete()


def test_training_goes_on_while_the_api_server_is_away(
    cluster: Cluster, namespace: Namespace, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    job = TrainingJob.write(namespace, tmp_path, pause=0.45)
    job.submit()
    job.until_training()
    restarts = _restarts(job)
    before = _logged(job)
    cluster.stop_api_server()
    try:
        time.sleep(30)
        assert _logged(job) > before
        said = job.run("status", code=75)
        assert "cannot reach" in said or "refused" in said
    finally:
        cluster.start_api_server()
    cluster.wait("three Ready nodes", lambda: all(cluster.ready().values()), 180)
    job.wait()
    assert _restarts(job) == restarts
    job.assert_same(expected)
    job.delete()


def _silent(job: TrainingJob, node: str) -> bool:
    return any(f"node {node} is silent" in problem["what"] for problem in job.status()["problems"])


def _elsewhere(job: TrainingJob, worker: int, node: str) -> bool:
    pods = job.pods(worker)
    return bool(pods) and pods[-1]["spec"].get("nodeName", node) != node and pods[-1]["status"]["phase"] == "Running"


def _trains(job: TrainingJob, worker: int) -> bool:
    """Whether the newest pod of a worker has told of a round."""
    return " Batch=" in job.namespace.cluster.log(job.pod(worker))


def test_a_drained_node_costs_one_checkpoint(
    cluster: Cluster, namespace: Namespace, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    job = TrainingJob.write(namespace, tmp_path, pause=0.35)
    job.submit()
    job.until_training()
    node = job.pod(0)["spec"]["nodeName"]
    try:
        cluster.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=90s")
        job.until("a pod elsewhere", lambda: _elsewhere(job, 0, node), 120)
        job.wait()
    finally:
        cluster.kubectl("uncordon", node)
    job.assert_same(expected)
    job.delete()


def _logged(job: TrainingJob) -> int:
    return (job.output / "node_0" / "train.log").stat().st_size


def _restarts(job: TrainingJob) -> int:
    return sum(event["event"] == "restart" for event in job.events())
