"""Several jobs in one namespace: they do not meet, and cannot be made to."""

from __future__ import annotations

from pathlib import Path

from tests.kube.jobs import TrainingJob
from tests.kube.namespace import Namespace


def test_two_jobs_at_once_and_the_same_name_twice(
    namespace: Namespace, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    first = TrainingJob.write(namespace, tmp_path, "first", pause=0.05)
    second = TrainingJob.write(namespace, tmp_path, "second")
    first.submit()
    second.submit()
    assert "first" in first.run("submit", code=2)
    for job in (first, second):
        job.wait()
        job.assert_same(expected)
    first.run("delete")
    second.delete()


def test_a_pod_of_another_job_that_tries_to_join_is_refused(
    namespace: Namespace, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    """It carries its own job's certificate and token and asks the first job's coordinator for a place."""
    elsewhere = {"UMIAK_COORDINATOR": "host-0.host:7163", "UMIAK_WAIT_SECONDS": "10"}
    job = TrainingJob.write(namespace, tmp_path, "host", pause=0.4)
    stranger = TrainingJob.write(
        namespace,
        tmp_path,
        "stranger",
        workers=2,
        pod={"containers": [{"name": "worker", "env": [{"name": n, "value": v} for n, v in elsewhere.items()]}]},
    )
    job.submit()
    job.until_training()
    stranger.submit()
    said = stranger.wait(code=2)
    assert "it has another job's token" in said
    job.wait()
    job.assert_same(expected)
    assert not [event for event in job.events() if event["event"] == "restart"]
    stranger.run("delete")
    job.delete()
