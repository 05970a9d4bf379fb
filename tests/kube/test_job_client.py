"""`umiak job` on a real cluster: the examples as pods, a job from submit to delete, and what a real API server refuses."""

from __future__ import annotations

import os
import shutil
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kube.images import RUNTIME
from tests.kube.jobs import WORKERS, TrainingJob
from tests.kube.namespace import Namespace
from tests.processes import snapshot_bytes, start, umiak
from umiak.data.fetch import fetch

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("example", "entry", "data", "arguments"),
    [("recommendation", "config.py", "movielens", {"batch": "800"}), ("quick_start", "lr.py", "reviews", {})],
)
def test_an_example_gives_the_same_bytes_as_pods_and_as_processes(
    namespace: Namespace, tmp_path: Path, example: str, entry: str, data: str, arguments: dict[str, str]
) -> None:
    """The example's own job.yaml, but for the image's name, one pass and larger batches, which send less."""
    shutil.copytree(fetch(data).parent, namespace.volume / "data")
    directory = tmp_path / example
    shutil.copytree(EXAMPLES / example, directory, ignore=shutil.ignore_patterns("__pycache__"))
    spec = yaml.safe_load((directory / "job.yaml").read_text())
    (directory / "job.yaml").write_text(yaml.dump({**spec, "image": RUNTIME, "passes": 1, "config_args": arguments}))
    job = TrainingJob(namespace, directory, spec["name"])
    said = job.run("submit", "--watch", timeout=300)
    assert f"{spec['name']}: done in" in said

    local = tmp_path / "local"
    data_directory = str(namespace.volume / "data")
    words = ("train", directory / entry, "--workers", "3", "--passes", "1", "--out", local)
    given = [f"--config_args={name}={value}" for name, value in arguments.items()]
    umiak(*words, *given, timeout=300, UMIAK_DATA=data_directory)
    assert snapshot_bytes(job.output) == snapshot_bytes(local)
    job.delete()


def test_a_job_from_submit_to_delete(namespace: Namespace, tmp_path: Path, expected: dict[str, bytes]) -> None:
    job = TrainingJob.write(namespace, tmp_path, pause=0.3)
    assert "the API server accepts all of it; nothing was created" in job.run("submit", "--dry-run=server")
    assert namespace.left() == []

    job.submit()
    job.until_training()
    assert job.status()["state"] == "running"
    shown = job.run("status")
    assert shown.count("training") >= WORKERS
    assert "samples/s" in shown
    listed = umiak("job", "ls", f"--kubeconfig={namespace.cluster.kubeconfig}", "-n", namespace.name)
    assert listed.splitlines()[1].split()[:4] == ["tiny", namespace.name, "running", f"{WORKERS}/{WORKERS}"]
    assert "already running" in job.run("submit", code=2)

    log = job.run("logs", "--worker", "1")
    assert "@umiak" not in log
    assert "Batch=" in log or "Pass=" in log or "]" in log
    server = job.run("logs", "--server")
    assert server
    assert not set(server.splitlines()) & set(job.run("logs", "--worker", "0").splitlines())
    assert job.run("logs", "--since", "1s", "--worker", "1") != log

    said = job.run("cancel")
    assert "resumes from its last checkpoint" in said
    assert job.status()["state"] == "cancelled"
    assert namespace.phases() == {} or set(namespace.phases().values()) <= {"Failed", "Succeeded"}
    assert job.run("wait", code=75)
    assert list(job.output.glob("checkpoints/*")) or list(job.output.rglob("manifest*.json"))
    assert "resumed" in job.submit()
    job.wait()
    assert snapshot_bytes(job.output) == expected

    assert "the output stays in tiny/output of claim efsvol" in job.run("delete")
    job.until("nothing left", lambda: not namespace.left(), 30)
    assert job.output.is_dir()


def test_logs_are_followed_to_the_end_and_delete_with_output_clears_the_volume(
    namespace: Namespace, tmp_path: Path
) -> None:
    (namespace.volume / "other").mkdir()
    job = TrainingJob.write(namespace, tmp_path, pause=0.2, passes=1)
    job.submit()
    job.until_training()
    followed = job.run("logs", "-f", "--worker", "0", timeout=180)
    job.wait()
    assert followed == job.run("logs", "--worker", "0")
    assert job.output.is_dir()
    assert "is deleted" in job.run("delete", "--output")
    assert not job.output.parent.exists()
    assert (namespace.volume / "other").is_dir()
    job.until("nothing left", lambda: not namespace.left(), 30)


def test_ctrl_c_leaves_the_job_running_and_says_how_to_come_back(namespace: Namespace, tmp_path: Path) -> None:
    job = TrainingJob.write(namespace, tmp_path, pause=0.3)
    where = [f"--kubeconfig={namespace.cluster.kubeconfig}", "-n", namespace.name]
    watching = start("job", "submit", job.directory / "job.yaml", "--watch", *where)
    job.until("the job", lambda: bool(namespace.pods()), 60)
    job.until_training()
    os.kill(watching.pid, 2)
    out, _ = watching.communicate(timeout=30)
    assert watching.returncode == 130
    assert f"watch it again with: umiak job status tiny -n {namespace.name} --watch" in out
    assert job.status()["state"] == "running"
    job.delete()


def limited(namespace: Namespace, rules: list[dict[str, Any]]) -> Path:
    """A kubeconfig for somebody who may do only this in the namespace."""
    group = "rbac.authorization.k8s.io"
    namespace.apply(
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": "jane"}, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "jane"},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "jane"},
            "subjects": [{"kind": "User", "name": "jane", "apiGroup": group}],
        },
    )
    return namespace.cluster.kubeconfig_of("jane", "people")


def left(namespace: Namespace) -> list[str]:
    """But for the account that asked."""
    return [name for name in namespace.left() if not name.endswith("/jane")]


def refused(job: TrainingJob, kubeconfig: Path, *words: str, code: int = 2) -> str:
    file = job.directory / "job.yaml"
    return umiak("job", "submit", file, f"--kubeconfig={kubeconfig}", "-n", job.namespace.name, *words, code=code)


def test_who_may_create_only_jobs_leaves_none_behind(namespace: Namespace, tmp_path: Path) -> None:
    job = TrainingJob.write(namespace, tmp_path)
    look = {"apiGroups": ["", "batch"], "resources": ["*"], "verbs": ["get", "list"]}
    config = limited(namespace, [look])
    assert f"may not create jobs in namespace {namespace.name}" in refused(job, config)
    jobs = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "patch", "delete"]}
    config = limited(namespace, [look, jobs])
    assert f"may not create services in namespace {namespace.name}" in refused(job, config)
    job.until("nothing left", lambda: not left(namespace), 30)


def test_who_may_create_what_a_job_needs_and_no_more_can_run_it(
    namespace: Namespace, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    """The role of docs/kubernetes.md: nothing outside the namespace."""
    role = yaml.safe_load((EXAMPLES.parent / "docs" / "role.yaml").read_text())
    config = limited(namespace, role["rules"])
    job = TrainingJob.write(namespace, tmp_path)
    where = (f"--kubeconfig={config}", "-n", namespace.name)
    for verb in ("submit", "wait", "status", "logs", "delete"):
        umiak("job", verb, job.directory / "job.yaml", *where, timeout=240)
    assert snapshot_bytes(job.output) == expected
    job.until("nothing left", lambda: not left(namespace), 30)


def test_what_a_real_api_server_refuses(namespace: Namespace, tmp_path: Path) -> None:
    job = TrainingJob.write(namespace, tmp_path, pod={"nodeSelectors": {"a": "b"}})
    kubeconfig = namespace.cluster.kubeconfig
    said = refused(job, kubeconfig, "-n", "nowhere")
    assert "there is no namespace 'nowhere'" in said
    claim = TrainingJob.write(namespace, tmp_path, "claim", volume={"claim": "none"})
    assert "volume.claim: there is no claim 'none'" in refused(claim, kubeconfig)
    bad = TrainingJob.write(
        namespace, tmp_path, "bad", pod={"priorityClassName": "Not A Name", "hostAliases": [{"ip": "x"}]}
    )
    assert "Kubernetes refuses" in refused(bad, kubeconfig)
    expired = namespace.cluster.kubeconfig_of("jane", "people", life=timedelta(hours=-1))
    assert "they have expired or are wrong" in refused(job, expired)
    away = tmp_path / "away"
    content = yaml.safe_load(kubeconfig.read_text())
    content["clusters"][0]["cluster"]["server"] = f"https://{namespace.cluster.place.gateway}:1"
    away.write_text(yaml.dump(content))
    assert "cannot reach" in refused(job, away, code=75)
    assert namespace.left() == []


def test_more_workers_than_the_nodes_hold_is_a_warning(namespace: Namespace, tmp_path: Path) -> None:
    job = TrainingJob.write(namespace, tmp_path, workers=4, cpu="64")
    file = job.directory / "job.yaml"
    where = [f"--kubeconfig={namespace.cluster.kubeconfig}", "-n", namespace.name]
    process = start("job", "submit", file, *where)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "warning: the nodes have room for 0 of 4 workers of 64 CPU" in err
    began = time.monotonic()
    shown = job.run("status")
    assert time.monotonic() - began < 10
    assert "no node takes it" in shown
    job.delete()
