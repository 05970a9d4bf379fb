"""What happens around a job while it trains: pods deleted, a node lost, the API server away. The model must not notice."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.kube.cluster import Cluster
from tests.kube.jobs import WORKERS, TrainingJob
from tests.kube.namespace import Namespace
from tests.kube.node import GRACE_SECONDS


@pytest.mark.timeout(900)
def test_pods_deleted_at_random_moments_change_nothing(
    namespace: Namespace, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    """Five deletions, two of them without any grace; the survivor's pod stays the same."""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    print(f"seed {seed}")
    job = TrainingJob.write(namespace, tmp_path, pause=0.7)
    job.submit()
    for number in range(5):
        job.until("all to run", lambda: _running(job), 120)
        before = job.round()
        time.sleep(chance.uniform(0, 6))
        worker = chance.randrange(WORKERS)
        survivors = [job.pod(w)["metadata"]["uid"] for w in range(WORKERS) if w != worker]
        force = ["--grace-period=0", "--force"] if number % 2 else []
        namespace.kubectl("delete", "pod", job.pod(worker)["metadata"]["name"], "--wait=false", *force)
        job.until("a new pod", lambda w=worker: len(job.pods(w)) == 1 and not _ending(job, w), 150)  # type: ignore[misc]
        assert [job.pod(w)["metadata"]["uid"] for w in range(WORKERS) if w != worker] == survivors
        if _done(job):
            pytest.fail(f"the job was done after {number + 1} deletions (round {before}); make it longer")
    job.wait()
    job.assert_same(expected)
    job.delete()


@pytest.mark.alone
def test_a_node_gone_silent_is_named_with_the_command_that_frees_its_worker(
    cluster: Cluster, namespace: Namespace, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    job = TrainingJob.write(namespace, tmp_path, pause=0.4)
    job.submit()
    job.until_training()
    victim = 1
    node = job.pod(victim)["spec"]["nodeName"]
    cluster.set_link(node, up=False)
    try:
        job.until("a diagnosis", lambda: _silent(job, node), GRACE_SECONDS + 60)
        assert f"kubectl delete node {node}" in job.run("status")
        assert sorted(name for name, ready in cluster.ready().items() if not ready) == [node]
        cluster.kubectl("delete", "node", node)
        job.until("a pod elsewhere", lambda: _elsewhere(job, victim, node), 120)
        job.wait()
    finally:
        cluster.set_link(node, up=True)
        cluster.restart_node(node)
    job.assert_same(expected)
    job.delete()


@pytest.mark.alone
def test_training_goes_on_while_the_api_server_is_away(
    cluster: Cluster, namespace: Namespace, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    job = TrainingJob.write(namespace, tmp_path, pause=0.7)
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
    cluster.wait("three Ready nodes", lambda: all(cluster.ready().values()))
    job.wait()
    assert _restarts(job) == restarts
    job.assert_same(expected)
    job.delete()


def _running(job: TrainingJob) -> bool:
    pods = [job.pods(worker) for worker in range(WORKERS)]
    return all(len(each) == 1 and each[0]["status"]["phase"] == "Running" for each in pods)


def _done(job: TrainingJob) -> bool:
    return bool(job.status()["state"] == "done")


def _ending(job: TrainingJob, worker: int) -> bool:
    return "deletionTimestamp" in job.pod(worker)["metadata"] or job.pod(worker)["status"]["phase"] != "Running"


def _silent(job: TrainingJob, node: str) -> bool:
    return any(f"node {node} is silent" in problem["what"] for problem in job.status()["problems"])


def _elsewhere(job: TrainingJob, worker: int, node: str) -> bool:
    pods = job.pods(worker)
    return bool(pods) and pods[-1]["spec"].get("nodeName", node) != node and pods[-1]["status"]["phase"] == "Running"


def _logged(job: TrainingJob) -> int:
    return (job.output / "node_0" / "train.log").stat().st_size


def _restarts(job: TrainingJob) -> int:
    return sum(event["event"] == "restart" for event in job.events())
