"""A job file as Kubernetes objects, by value: what makes a job safe to restart, safe from others, and clean to remove."""

from __future__ import annotations

import base64
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from umiak.errors import InputError
from umiak.jobs import configdir, manifests, plan
from umiak.kube.merge import merged
from umiak.spec.job import JobSpec, Volume
from umiak.wire import credentials


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "config.py").write_text("config = 1\n")
    (tmp_path / "helper.py").write_text("x = 1\n")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "config.pyc").write_text("compiled")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref")
    return tmp_path


def made(**fields: Any) -> dict[str, Any]:
    return manifests.job(JobSpec("rec", "img:1", **fields))["spec"]


def pod(**fields: Any) -> dict[str, Any]:
    spec: dict[str, Any] = made(**fields)["template"]["spec"]
    return spec


def environment(spec: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value") for each in spec["containers"][0]["env"]}


def test_the_job_waits_until_all_it_needs_is_there() -> None:
    spec = made(workers=4)
    assert spec["suspend"] is True
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 4, 4)


def test_a_worker_is_replaced_when_it_is_gone_and_not_before() -> None:
    spec = made()
    assert spec["podReplacementPolicy"] == "Failed"
    assert (spec["backoffLimitPerIndex"], spec["maxFailedIndexes"]) == (10, 0)


def test_disruptions_do_not_count_and_bad_input_ends_the_job_at_once() -> None:
    disruption, input_error = made()["podFailurePolicy"]["rules"]
    assert disruption == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    assert input_error["action"] == "FailJob"
    assert input_error["onExitCodes"] == {"containerName": "worker", "operator": "In", "values": [1, 2]}


def test_times_are_those_of_the_file() -> None:
    spec = made(keep="2h", grace="5m")
    assert spec["ttlSecondsAfterFinished"] == 7200
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 300


def test_pods_are_hardened_and_carry_no_token() -> None:
    spec = pod()
    assert spec["automountServiceAccountToken"] is False
    assert (spec["securityContext"]["runAsNonRoot"], spec["securityContext"]["runAsUser"]) == (True, 1000)
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not any("hostPort" in port for port in spec["containers"][0]["ports"])


def test_pods_prefer_to_spread_and_leave_a_lost_node_after_30_seconds() -> None:
    spec = pod()
    (spread,) = spec["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")
    assert {(each["key"], each["effect"], each["tolerationSeconds"]) for each in spec["tolerations"]} == {
        ("node.kubernetes.io/not-ready", "NoExecute", 30),
        ("node.kubernetes.io/unreachable", "NoExecute", 30),
    }


def test_a_pod_sees_its_own_certificate_alone() -> None:
    mounts = {each["mountPath"]: each for each in pod()["containers"][0]["volumeMounts"]}
    assert mounts["/umiak/credentials/cert.pem"]["subPathExpr"] == "cert-$(JOB_COMPLETION_INDEX).pem"
    assert mounts["/umiak/credentials/key.pem"]["subPathExpr"] == "key-$(JOB_COMPLETION_INDEX).pem"
    whole = [each for each in mounts.values() if each["name"] == "credentials" and "subPathExpr" not in each]
    assert whole == []


def test_the_pod_learns_its_job_from_the_environment() -> None:
    given = environment(
        pod(
            workers=5,
            passes=2,
            mode="async",
            config_args={"dim": "8", "a": "b"},
            flags=("--seed=3",),
            data="sets",
            entry="c.py",
        )
    )
    assert json.loads(given["UMIAK_ARGS"]) == ["--passes=2", "--mode=async", "--config_args=dim=8,a=b", "--seed=3"]
    assert (given["UMIAK_WORKERS"], given["UMIAK_ENTRY"], given["UMIAK_DATA"]) == ("5", "c.py", "/volume/sets")
    assert (given["UMIAK_OUT"], given["UMIAK_SERVICE"], given["UMIAK_PORT"]) == ("/volume/rec/output", "rec", "7164")
    assert "UMIAK_SHARDS" not in given
    assert environment(pod(shards="cut"))["UMIAK_SHARDS"] == "/volume/cut"


def test_memory_is_a_limit_and_cpu_is_not() -> None:
    assert pod(cpu="2", memory="3Gi")["containers"][0]["resources"] == {
        "requests": {"cpu": "2", "memory": "3Gi"},
        "limits": {"memory": "3Gi"},
    }


def test_everything_but_the_claim_goes_with_the_job() -> None:
    spec = JobSpec("rec", "img", volume=Volume(size="5Gi", storage_class="efs"))
    owned = manifests.owned(spec, b"config", "the-uid", manifests.placeholders(3))
    assert [each["kind"] for each in owned] == ["Service", "NetworkPolicy", "ConfigMap", "Secret"]
    for each in owned:
        (owner,) = each["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("Job", "rec", "the-uid")
        assert each["metadata"]["labels"]["umiak.dev/job"] == "rec"
    claim = manifests.claim(spec)
    assert claim is not None
    assert "ownerReferences" not in claim["metadata"]
    assert claim["metadata"]["name"] == "rec-volume"
    assert claim["spec"]["storageClassName"] == "efs"
    assert manifests.claim(JobSpec("rec", "img")) is None


def test_names_are_published_before_pods_are_ready() -> None:
    service = manifests.owned(JobSpec("rec", "img"), b"", "u", manifests.placeholders(3))[0]["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
    assert pod()["subdomain"] == "rec"


def test_only_the_jobs_pods_may_reach_its_pods() -> None:
    policy = manifests.owned(JobSpec("rec", "img"), b"", "u", manifests.placeholders(3))[1]["spec"]
    mine = {"matchLabels": {"umiak.dev/job": "rec"}}
    assert policy == {"podSelector": mine, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": mine}]}]}


def test_a_new_set_of_keys_lets_its_workers_in_and_no_others(tmp_path: Path) -> None:
    keys, other = plan.new_keys(2), plan.new_keys(2)
    assert len(keys.token) == 64
    assert keys.token != other.token
    for place, ca in (("mine", keys.ca), ("foreign", other.ca)):
        (tmp_path / place).mkdir()
        for name, content in (("ca", ca), ("cert", keys.certificates[1]), ("key", keys.keys[1])):
            (tmp_path / place / f"{name}.pem").write_text(content)
    credentials.server_context(tmp_path / "mine")
    with pytest.raises(InputError, match="was not signed by"):
        credentials.server_context(tmp_path / "foreign")


def test_what_a_worker_may_put_on_its_nodes_disk_is_bounded_by_the_job_file() -> None:
    def limits(**given: Any) -> dict[str, Any]:
        return {each["name"]: each["emptyDir"] for each in pod(**given)["volumes"] if "emptyDir" in each}

    assert limits() == {"tmp": {"sizeLimit": "10Gi"}, "work": {}}
    assert limits(tmp_size=None, work_size="200Gi") == {"tmp": {}, "work": {"sizeLimit": "200Gi"}}


def test_the_fragment_is_merged_last() -> None:
    spec = pod(
        pod={
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "containers": [
                {"name": "worker", "env": [{"name": "HOME", "value": "/work"}, {"name": "MORE", "value": "1"}]},
                {"name": "sidecar", "image": "other"},
            ],
            "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory"}}],
            "enableServiceLinks": None,
        }
    )
    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert [each["key"] for each in spec["tolerations"]][-1] == "gpu"
    assert len(spec["tolerations"]) == 3
    worker, sidecar = spec["containers"]
    given = {each["name"]: each.get("value") for each in worker["env"]}
    assert (given["HOME"], given["MORE"], given["UMIAK_JOB"]) == ("/work", "1", "rec")
    assert worker["image"] == "img:1"
    assert sidecar == {"name": "sidecar", "image": "other"}
    assert {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "10Gi"}} in spec["volumes"]
    assert len(spec["volumes"]) == 5
    assert "enableServiceLinks" not in spec


def test_a_variable_with_a_source_is_replaced_whole() -> None:
    base = {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}
    assert merged(base, {"env": [{"name": "A", "value": "b"}]}) == {"env": [{"name": "A", "value": "b"}]}


def test_the_config_directory_travels_without_caches_and_dot_files(directory: Path) -> None:
    packed = configdir.pack(directory, "config.py")
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        assert tar.getnames() == ["config.py", "helper.py"]
    os.utime(directory / "config.py", (1, 1))
    assert configdir.pack(directory, "config.py") == packed, "the same files must give the same bytes"


def test_a_config_directory_too_big_names_the_largest_files(directory: Path) -> None:
    (directory / "weights.bin").write_bytes(os.urandom(1_000_000))
    with pytest.raises(
        InputError, match=r"1,00\d kB packed, and 900 kB packed is the most a job can carry.*weights.bin \(1,000 kB\)"
    ):
        configdir.pack(directory, "config.py")


def test_a_config_directory_without_its_entry(directory: Path) -> None:
    with pytest.raises(InputError, match=r"entry: there is no main.py in"):
        configdir.pack(directory, "main.py")
    with pytest.raises(InputError, match="is not a directory"):
        configdir.pack(directory / "none", "config.py")


def test_dry_run_prints_what_is_sent_with_placeholders_for_secrets(directory: Path) -> None:
    made = plan.make(JobSpec("rec", "img", workers=2), directory, "team")
    shown = list(yaml.safe_load_all(made.text()))
    keys = plan.new_keys(2)
    sent = made.everything("real-uid", keys)
    assert [each["kind"] for each in shown] == ["Job", "Service", "NetworkPolicy", "ConfigMap", "Secret"]
    assert {each["metadata"]["namespace"] for each in shown} == {"team"}
    for before, after in zip(shown, sent, strict=True):
        for each in (before, after):
            each["metadata"].pop("ownerReferences", None)
            each.pop("stringData", None)
        assert before == after
    assert "PRIVATE KEY" not in made.text()
    assert base64.b64decode(shown[3]["binaryData"]["config.tar.gz"]) == made.config


def test_the_fingerprint_changes_with_the_file_and_the_config(directory: Path) -> None:
    first = plan.make(JobSpec("rec", "img"), directory, "a").fingerprint
    assert plan.make(JobSpec("rec", "img"), directory, "a").fingerprint == first
    assert plan.make(JobSpec("rec", "img", passes=11), directory, "a").fingerprint != first
    (directory / "helper.py").write_text("x = 2\n")
    assert plan.make(JobSpec("rec", "img"), directory, "a").fingerprint != first


def test_data_in_s3_are_read_where_they_are_with_the_role_of_the_service_account() -> None:
    spec = pod(data="s3://clicks/2026", service_account="umiak-data")
    assert environment(spec)["UMIAK_DATA"] == "s3://clicks/2026"
    assert spec["serviceAccountName"] == "umiak-data"
    assert spec["automountServiceAccountToken"] is False, (
        "the token of the role comes by itself, that of Kubernetes is not needed"
    )
    assert not [name for name in environment(spec) if name.startswith("AWS_")]
    on_volume = pod(data="clicks")
    assert environment(on_volume)["UMIAK_DATA"] == "/volume/clicks"
    assert "serviceAccountName" not in on_volume
