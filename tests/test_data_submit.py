"""`umiak data submit` against a recorded API server: which image, claim and account the Job gets. tests/kube runs it for real."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.recorded_kube import RecordedKube, recorded
from umiak.cli.main import main
from umiak.jobs import data

NOTED = {
    "image": "123456789012.dkr.ecr.us-west-2.amazonaws.com/paddle-images:latest",
    "claim": "shared",
    "service_account": "umiak-data",
    "platform": "linux/amd64",
}


@pytest.fixture
def kube(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordedKube]:
    with recorded() as kube:
        for namespace in ("default", "team"):
            kube.namespace(namespace)
            kube.put({"kind": "PersistentVolumeClaim", "metadata": {"name": "shared", "namespace": namespace}})
            kube.put({"kind": "PersistentVolumeClaim", "metadata": {"name": "efsvol", "namespace": namespace}})
        kube.put({"kind": "ServiceAccount", "metadata": {"name": "umiak-data", "namespace": "default"}})
        monkeypatch.setenv("KUBECONFIG", str(kube.kubeconfig(tmp_path / "kubeconfig")))
        monkeypatch.chdir(tmp_path)
        # The recorded server runs no pods, so a Job there never ends.
        monkeypatch.setattr(data, "follow", lambda *_: [])
        monkeypatch.setattr(data, "delete", lambda *_: None)
        yield kube


@pytest.fixture
def made(kube: RecordedKube, tmp_path: Path) -> RecordedKube:
    """A cluster that `umiak cluster up` made, as its kubeconfig notes it."""
    file = tmp_path / "kubeconfig"
    content = json.loads(file.read_text())
    content["contexts"][0]["context"]["extensions"] = [{"name": "umiak.dev/cluster", "extension": NOTED}]
    file.write_text(json.dumps(content))
    return kube


def submit(*words: str) -> int:
    return main(["data", "submit", *words, "reviews", "--shards", "3"])


def pod(kube: RecordedKube) -> dict[str, Any]:
    (job,) = kube.of("Job")
    return job["spec"]["template"]["spec"]


def test_on_a_cluster_of_ours_no_job_file_is_needed(made: RecordedKube) -> None:
    assert submit("s3://bucket/reviews") == 0
    assert pod(made)["containers"][0]["image"] == NOTED["image"]
    assert pod(made)["volumes"][0]["persistentVolumeClaim"]["claimName"] == "shared"


def test_the_pod_that_reads_the_bucket_runs_as_the_account_that_may(made: RecordedKube) -> None:
    assert submit("s3://bucket/reviews") == 0
    assert pod(made)["serviceAccountName"] == "umiak-data"
    assert pod(made)["automountServiceAccountToken"] is False, "pod identity needs no token of Kubernetes"


def test_data_from_elsewhere_needs_no_account(made: RecordedKube) -> None:
    assert submit("https://example.com/reviews.txt") == 0
    assert "serviceAccountName" not in pod(made)


def test_on_another_cluster_nothing_is_assumed(kube: RecordedKube, capsys: pytest.CaptureFixture[str]) -> None:
    assert submit("s3://bucket/reviews") == 2
    assert "needs an --image" in capsys.readouterr().err
    assert submit("s3://bucket/reviews", "--image", "umiak/runtime:1") == 0
    assert "serviceAccountName" not in pod(kube)
    assert pod(kube)["volumes"][0]["persistentVolumeClaim"]["claimName"] == "efsvol"


def test_an_account_can_be_named(kube: RecordedKube) -> None:
    kube.put({"kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": "team"}})
    assert submit("s3://b/r", "--image", "i:1", "--service-account", "reader", "-n", "team") == 0
    assert pod(kube)["serviceAccountName"] == "reader"


def test_an_account_that_is_not_in_the_namespace_is_said_at_once(
    made: RecordedKube, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kubernetes would make no pod and say so in an event only."""
    assert submit("s3://bucket/reviews", "-n", "team") == 2
    assert "no service account 'umiak-data' in namespace 'team'" in capsys.readouterr().err
    assert made.of("Job") == []
