"""The network between pods fails in one direction and heals, or several pods go at once. The model must not notice."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kube.jobs import WORKERS, TrainingJob
from tests.kube.namespace import Namespace
from umiak.worker.coordinator import SILENCE_SECONDS

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"umiak.dev/job": "tiny"}}}
        ]
    }
}
"""Each pod on a node of its own, so that what they send each other leaves the node."""


@pytest.fixture
def job(namespace: Namespace, tmp_path: Path) -> TrainingJob:
    made = TrainingJob.write(namespace, tmp_path, pause=0.35, flags=["--log_period=1", "--checkpoint_minutes=0.02"])
    spec = json.loads((made.directory / "job.yaml").read_text())
    spec["pod"]["affinity"] = APART
    (made.directory / "job.yaml").write_text(json.dumps(spec))
    made.submit()
    made.until_training()
    return made


@contextmanager
def cut(job: TrainingJob, source: int, target: int) -> Iterator[None]:
    """Nothing that the pod of worker `source` sends reaches that of `target`; the other direction works."""
    sender, receiver = job.pod(source), job.pod(target)
    rule = f"ip saddr {sender['status']['podIP']} ip daddr {receiver['status']['podIP']} counter drop"
    table = f"cut_{source}_{target}"
    node, cluster = sender["spec"]["nodeName"], job.namespace.cluster
    assert node != receiver["spec"]["nodeName"]
    chain = "{ type filter hook forward priority -10; }"
    cluster.nft(node, f"add table ip {table}\nadd chain ip {table} c {chain}\nadd rule ip {table} c {rule}\n")
    try:
        yield
        assert "counter packets 0 " not in cluster.nft(node, f"list table ip {table}\n"), "nothing was cut"
    finally:
        cluster.nft(node, f"delete table ip {table}\n")


def uids(job: TrainingJob) -> list[str]:
    return [job.pod(worker)["metadata"]["uid"] for worker in range(WORKERS)]


def finish(job: TrainingJob, expected: dict[str, bytes]) -> None:
    job.wait()
    job.assert_same(expected)
    job.delete()


@pytest.mark.parametrize("source", [0, 1])
def test_a_link_that_fails_in_one_direction_and_heals_costs_no_pod(
    job: TrainingJob, expected: dict[str, bytes], source: int
) -> None:
    before = uids(job)
    with cut(job, source, 1 - source):
        time.sleep(2 * SILENCE_SECONDS)
    job.until_training(after=job.round())
    assert uids(job) == before
    finish(job, expected)


def test_all_pods_deleted_at_once_and_again_during_recovery(job: TrainingJob, expected: dict[str, bytes]) -> None:
    for _ in range(2):
        before = uids(job)
        for worker in range(WORKERS):
            _delete(job, worker)
        job.until("new pods that run", lambda b=before: _renewed(job, b), 120)  # type: ignore[misc]
    finish(job, expected)


def test_the_pod_of_the_coordinator_is_evicted(job: TrainingJob, expected: dict[str, bytes]) -> None:
    before = uids(job)
    pod = job.pod(0)["metadata"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["name"]}}
    where = f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}/eviction"
    job.namespace.kubectl("create", "--raw", where, "-f", "-", text=json.dumps(eviction))
    job.until("a successor", lambda: _renewed(job, before[:1]), 120)
    assert uids(job)[1] == before[1], "a survivor's pod ended"
    finish(job, expected)


def _delete(job: TrainingJob, worker: int) -> None:
    pod = job.pod(worker)["metadata"]["name"]
    job.namespace.kubectl("delete", "pod", pod, "--wait=false", "--grace-period=0", "--force")


def _renewed(job: TrainingJob, before: list[str]) -> bool:
    """Whether the first workers, as many as are named, have new pods that run."""
    now = [job.pods(worker) for worker in range(len(before))]
    return all(_runs(pods) and pods[-1]["metadata"]["uid"] != uid for pods, uid in zip(now, before, strict=True))


def _runs(pods: list[dict[str, Any]]) -> bool:
    return bool(pods) and pods[-1]["status"]["phase"] == "Running" and "deletionTimestamp" not in pods[-1]["metadata"]
