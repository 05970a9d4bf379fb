"""Pods of a job deleted while it trains. The model must not notice."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.kube.jobs import WORKERS, TrainingJob
from tests.kube.namespace import Namespace


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


def _running(job: TrainingJob) -> bool:
    pods = [job.pods(worker) for worker in range(WORKERS)]
    return all(len(each) == 1 and each[0]["status"]["phase"] == "Running" for each in pods)


def _done(job: TrainingJob) -> bool:
    return bool(job.status()["state"] == "done")


def _ending(job: TrainingJob, worker: int) -> bool:
    return "deletionTimestamp" in job.pod(worker)["metadata"] or job.pod(worker)["status"]["phase"] != "Running"
