"""`umiak job` as a user meets it, against a recorded API server: what it sends, what it says, what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import kube_objects as make
from tests.recorded_kube import RecordedKube, recorded
from umiak.cli.main import main
from umiak.errors import RetryError
from umiak.jobs import control, data, watch
from umiak.kube import kubeconfig
from umiak.kube.api import Api

JOB = {"name": "rec", "image": "umiak/runtime:1", "grace": "10s"}
MADE = {
    "Job rec",
    "Service rec",
    "NetworkPolicy rec",
    "ConfigMap rec-config",
    "Secret rec-credentials",
}


@pytest.fixture
def kube(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordedKube]:
    with recorded() as kube:
        kube.namespace()
        kube.put(claim())
        for number in (1, 2, 3):
            kube.put(make.node(f"n{number}"))
        monkeypatch.setenv("KUBECONFIG", str(kube.kubeconfig(tmp_path / "kubeconfig")))
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(watch, "SECONDS", 0.05)
        monkeypatch.setattr(control, "POLL_SECONDS", 0.05)
        (tmp_path / "config.py").write_text("config = 1\n")
        yield kube


def claim(modes: tuple[str, ...] = ("ReadWriteMany",)) -> dict[str, Any]:
    meta = {"name": "efsvol", "namespace": "default"}
    return {"kind": "PersistentVolumeClaim", "metadata": meta, "spec": {"accessModes": list(modes)}}


def write(**more: Any) -> str:
    Path("job.yaml").write_text(yaml.dump({**JOB, **more}))
    return "job.yaml"


def ours(kube: RecordedKube) -> set[str]:
    return kube.names() - {"PersistentVolumeClaim efsvol"}


def fails(capsys: pytest.CaptureFixture[str], *words: str, code: int = 2) -> str:
    assert main(["job", *words]) == code
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "warning" not in line]
    return line


def test_submit_creates_everything_and_then_starts_the_job(
    kube: RecordedKube, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["job", "submit", write()]) == 0
    assert ours(kube) == MADE
    (job,) = kube.of("Job")
    assert job["spec"]["suspend"] is False
    (secret,) = kube.of("Secret")
    assert secret["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    assert {name for name in secret["stringData"] if name.startswith("key-")} == {f"key-{i}.pem" for i in range(3)}
    writes = [(verb, where) for verb, where in kube.requests if verb != "GET"]
    assert writes[0][1].endswith("/jobs")
    assert writes[-1] == ("PATCH", "/apis/batch/v1/namespaces/default/jobs/rec")
    said = capsys.readouterr().out
    assert "job rec in namespace default (context recorded)" in said
    assert "umiak job logs -f rec -n default" in said


def test_dry_run_sends_nothing_and_needs_no_cluster(
    kube: RecordedKube, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["job", "submit", "--dry-run", write(namespace="team")]) == 0
    first = capsys.readouterr().out
    assert next(each["kind"] for each in yaml.safe_load_all(first)) == "Job"
    assert kube.requests == []
    monkeypatch.setenv("KUBECONFIG", "nowhere")
    assert main(["job", "submit", "job.yaml", "--dry-run"]) == 0
    assert capsys.readouterr().out == first


def test_dry_run_is_what_submit_sends(kube: RecordedKube, capsys: pytest.CaptureFixture[str]) -> None:
    main(["job", "submit", "--dry-run", write()])
    shown = {each["kind"]: each for each in yaml.safe_load_all(capsys.readouterr().out)}
    main(["job", "submit"])
    for kind in ("Job", "Service", "NetworkPolicy", "ConfigMap", "Secret"):
        (sent,) = kube.of(kind)
        before = shown[kind]
        for key in ("uid", "creationTimestamp", "ownerReferences"):
            sent["metadata"].pop(key, None)
            before["metadata"].pop(key, None)
        if kind == "Job":
            sent["spec"]["suspend"] = True
        if kind == "Secret":
            assert sent["stringData"].keys() == before["stringData"].keys()
            sent["stringData"] = before["stringData"]
        assert sent == before


def test_dry_run_by_the_server_keeps_nothing(kube: RecordedKube, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", "submit", write(), "--dry-run=server"]) == 0
    assert ours(kube) == set()
    assert sum("dryRun=All" in where for _, where in kube.requests) == 5
    assert "nothing was created" in capsys.readouterr().out
    kube.denied = {("create", "secrets")}
    assert "may not create secrets in namespace default" in fails(capsys, "submit", "--dry-run=server")


@pytest.mark.parametrize("denied", ["jobs", "services", "networkpolicies", "configmaps", "secrets"])
def test_what_may_not_be_created_leaves_nothing_behind(
    kube: RecordedKube, capsys: pytest.CaptureFixture[str], denied: str
) -> None:
    kube.denied = {("create", denied)}
    line = fails(capsys, "submit", write(volume={"size": "1Gi"}))
    assert f"user 'jane' may not create {denied} in namespace default: ask an administrator" in line
    assert ours(kube) == set()


def test_a_server_that_breaks_down_midway_leaves_nothing_behind(
    kube: RecordedKube, capsys: pytest.CaptureFixture[str]
) -> None:
    kube.refuse = {("patch", "jobs"): 500}
    assert "cannot answer now" in fails(capsys, "submit", write(), code=75)
    assert ours(kube) == set()


def test_what_cannot_be_removed_again_is_named(kube: RecordedKube, capsys: pytest.CaptureFixture[str]) -> None:
    kube.denied = {("create", "secrets"), ("delete", "jobs")}
    line = fails(capsys, "submit", write(), code=1)
    assert "may not create secrets" in line
    assert "could not remove Job rec again: delete by hand" in line


def test_a_foreign_service_of_that_name_is_left_alone(kube: RecordedKube, capsys: pytest.CaptureFixture[str]) -> None:
    kube.put({"kind": "Service", "metadata": {"name": "rec", "namespace": "default"}})
    line = fails(capsys, "submit", write())
    assert "a Service 'rec' exists in namespace default already" in line
    assert ours(kube) == {"Service rec"}


def test_a_namespace_that_does_not_exist(kube: RecordedKube, capsys: pytest.CaptureFixture[str]) -> None:
    line = fails(capsys, "submit", write(), "-n", "nowhere")
    assert "there is no namespace 'nowhere': create it (kubectl create namespace nowhere)" in line
    kube.denied = {("get", "namespaces")}
    line = fails(capsys, "submit", write(volume={"size": "1Gi"}), "-n", "nowhere")
    assert "there is no namespace 'nowhere'" in line


def test_a_claim_that_is_not_there(kube: RecordedKube, capsys: pytest.CaptureFixture[str]) -> None:
    line = fails(capsys, "submit", write(volume={"claim": "other"}))
    assert "volume.claim: there is no claim 'other' in namespace default" in line
    assert "volume.size" in line
    assert ours(kube) == set()


def test_a_claim_for_one_node_only_is_a_warning(kube: RecordedKube, capsys: pytest.CaptureFixture[str]) -> None:
    kube.put(claim(("ReadWriteOnce",)))
    assert main(["job", "submit", write()]) == 0
    assert "efsvol is ReadWriteOnce, not ReadWriteMany" in capsys.readouterr().err


def test_more_workers_than_fit_is_a_warning_before_submit(
    kube: RecordedKube, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["job", "submit", write(workers=9)]) == 0
    assert "warning: the nodes have room for 6 of 9 workers" in capsys.readouterr().err
    assert ours(kube) == MADE


def test_who_may_not_list_nodes_can_submit_all_the_same(kube: RecordedKube, capsys: pytest.CaptureFixture[str]) -> None:
    kube.denied = {("list", "nodes"), ("get", "namespaces")}
    assert main(["job", "submit", write(workers=9)]) == 0
    assert capsys.readouterr().err == ""


def test_the_same_name_twice(kube: RecordedKube, capsys: pytest.CaptureFixture[str]) -> None:
    main(["job", "submit", write()])
    capsys.readouterr()
    before = json.dumps(sorted(kube.objects))
    assert "the job 'rec' is already running in namespace default" in fails(capsys, "submit")
    (job,) = kube.of("Job")
    job["status"] = {"conditions": make.ended("Failed")}
    assert "exists in namespace default and is failed: remove it first with `umiak job delete rec" in fails(
        capsys, "submit"
    )
    job["metadata"]["labels"] = {}
    assert "that is not umiak's" in fails(capsys, "submit")
    assert json.dumps(sorted(kube.objects)) == before


def test_a_submit_that_was_killed_midway_is_cleaned_up_by_the_next(
    kube: RecordedKube, capsys: pytest.CaptureFixture[str]
) -> None:
    old = kube.put(make.job(suspend=True))
    owner = {"kind": "Job", "name": "rec", "uid": old["metadata"]["uid"], "apiVersion": "batch/v1"}
    meta = {"name": "rec", "namespace": "default", "ownerReferences": [owner]}
    kube.put({"kind": "Service", "metadata": meta})
    old["metadata"]["creationTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    assert "is just being submitted" in fails(capsys, "submit", write(), code=75)
    old["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    assert main(["job", "submit"]) == 0
    (job,) = kube.of("Job")
    assert job["metadata"]["uid"] != old["metadata"]["uid"]
    assert ours(kube) == MADE


@pytest.mark.slow
def test_cancel_stops_and_submit_goes_on_with_the_same_job(
    kube: RecordedKube, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["job", "submit", write()])
    uid = kube.of("Job")[0]["metadata"]["uid"]
    assert main(["job", "cancel", "rec"]) == 0
    (job,) = kube.of("Job")
    assert job["spec"]["suspend"] is True
    assert "umiak.dev/cancelled" in job["metadata"]["annotations"]
    capsys.readouterr()
    assert main(["job", "wait", "rec"]) == 75
    capsys.readouterr()

    assert main(["job", "submit"]) == 0
    assert "resumed" in capsys.readouterr().out
    (job,) = kube.of("Job")
    assert (job["metadata"]["uid"], job["spec"]["suspend"]) == (uid, False)
    assert "umiak.dev/cancelled" not in job["metadata"]["annotations"]

    (before,) = kube.of("Secret")
    job["metadata"]["creationTimestamp"] = (datetime.now(UTC) - timedelta(days=340)).isoformat(timespec="seconds")
    assert main(["job", "status", "rec"]) == 0
    assert re.search(
        r"warning: the job's certificates expire on .*umiak job cancel rec .*renew them", capsys.readouterr().out
    )
    main(["job", "cancel"])
    assert main(["job", "submit"]) == 0
    (after,) = kube.of("Secret")
    assert set(after["stringData"]) == set(before["stringData"])
    assert all(after["stringData"][name] != before["stringData"][name] for name in before["stringData"])
    capsys.readouterr()
    assert main(["job", "status", "rec"]) == 0
    assert "certificates" not in capsys.readouterr().out
    main(["job", "cancel"])
    assert main(["job", "submit"]) == 0
    assert kube.of("Secret") == [after], "pods that are only just ending must not meet pods with other certificates"

    main(["job", "cancel"])
    capsys.readouterr()
    assert "its job file or config has changed since" in fails(capsys, "submit", write(passes=3))


def test_cancel_of_what_has_ended(kube: RecordedKube, capsys: pytest.CaptureFixture[str]) -> None:
    kube.put(make.job(conditions=make.ended("Complete")))
    assert "is done already: there is nothing to cancel" in fails(capsys, "cancel", "rec")


def test_delete_leaves_nothing_but_the_output(kube: RecordedKube, capsys: pytest.CaptureFixture[str]) -> None:
    main(["job", "submit", write()])
    assert main(["job", "delete", "rec"]) == 0
    assert ours(kube) == set()
    assert "the output stays in rec/output of claim efsvol" in capsys.readouterr().out


@pytest.mark.slow
def test_delete_with_output_removes_the_claim_that_submit_made(
    kube: RecordedKube, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["job", "submit", write(volume={"size": "1Gi"})])
    assert ours(kube) == {*MADE, "PersistentVolumeClaim rec-volume"}
    main(["job", "delete", "rec"])
    assert ours(kube) == {"PersistentVolumeClaim rec-volume"}
    main(["job", "submit"])
    assert main(["job", "delete", "rec", "--output"]) == 0
    assert ours(kube) == set()
    assert "PersistentVolumeClaim efsvol" in kube.names()


@pytest.mark.parametrize("verb", ["status", "wait", "logs", "cancel", "delete"])
def test_a_job_that_does_not_exist(kube: RecordedKube, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    assert "there is no job 'nix' in namespace default: `umiak job ls -A` lists all" in fails(capsys, verb, "nix")


def test_which_job_is_asked_where_nothing_says_it(kube: RecordedKube, capsys: pytest.CaptureFixture[str]) -> None:
    assert "which job? Name it, or run this where its job.yaml is" in fails(capsys, "status")
    write(namespace="default")
    assert "there is no job 'rec'" in fails(capsys, "status")


def test_ls(kube: RecordedKube, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", "ls"]) == 0
    assert capsys.readouterr().out == "no jobs in namespace default\n"
    kube.put(make.job(ready=3))
    kube.put(make.job("old", conditions=make.ended("Failed"), suspend=False))
    kube.put({"kind": "Job", "metadata": {"name": "foreign", "namespace": "default"}, "spec": {}})
    assert main(["job", "ls", "-A"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert any(line.split()[:4] == ["rec", "default", "running", "3/3"] for line in lines)
    assert any(line.split()[:3] == ["old", "default", "failed"] for line in lines)


def test_status_as_json(kube: RecordedKube, capsys: pytest.CaptureFixture[str]) -> None:
    kube.put(make.job())
    kube.put(make.failed(1, 137, reason="OOMKilled"))
    assert main(["job", "status", "rec", "--json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert (seen["name"], seen["state"], len(seen["workers"])) == ("rec", "waiting", 3)
    assert seen["problems"][0]["what"].startswith("out of memory")
    assert seen["problems"][0]["when"] == "2026-11-16T09:05:00+00:00"


def test_wait_ends_as_the_training_did(kube: RecordedKube, capsys: pytest.CaptureFixture[str]) -> None:
    job = kube.put(make.job())
    assert main(["job", "wait", "rec", "--timeout", "0s"]) == 75
    assert "has not ended within the time given" in capsys.readouterr().err

    def end() -> None:
        time.sleep(0.3)
        job["status"]["conditions"] = make.ended("Complete")

    thread = threading.Thread(target=end)
    thread.start()
    assert main(["job", "wait", "rec"]) == 0
    thread.join()
    assert "rec: done in 10 min 00 s; the model is in rec/output of claim efsvol" in capsys.readouterr().out
    kube.put(make.failed(1, 2, message=make.report("config.py:1: KeyError: 'x'", 2)))
    job["status"]["conditions"] = make.ended("Failed")
    assert main(["job", "wait", "rec"]) == 2
    assert "config.py:1: KeyError: 'x'" in capsys.readouterr().err


@pytest.mark.slow
def test_watch_tells_what_changes_and_survives_a_server_that_is_away(
    kube: RecordedKube, capsys: pytest.CaptureFixture[str]
) -> None:
    job = kube.put(make.job())
    for worker in range(3):
        kube.put(make.running(worker))
    event = {"event": "round", "pass": 2, "batch": 3, "round": 21, "samples_per_s": 300.0, "cost": 1.5}
    kube.logs["rec-0-abcde"] = f"I1116 hello\n@umiak {json.dumps(event)}\n"

    def story() -> None:
        asked_again(kube, 10)
        kube.refuse = {("get", "jobs"): 500}
        asked_again(kube, 2)
        kube.refuse = {}
        job["status"]["conditions"] = make.ended("Complete")

    thread = threading.Thread(target=story)
    thread.start()
    assert main(["job", "status", "rec", "--watch"]) == 0
    thread.join()
    said = capsys.readouterr().out
    assert "workers 0, 1, 2: training" in said
    assert said.count("pass 2  batch 3  300 samples/s  cost 1.5000") == 1
    assert said.count("no answer, training continues") == 1
    assert "rec: done" in said


def asked_again(kube: RecordedKube, times: int) -> None:
    """Wait until so many more requests have come."""
    before = len(kube.requests)
    while len(kube.requests) < before + times:
        time.sleep(0.01)


LOG = """I1116 first line
@umiak {"event": "round"}
@server I1116 a server line
I1116 second line
"""


def test_logs_hide_what_is_for_machines(kube: RecordedKube, capsys: pytest.CaptureFixture[str]) -> None:
    kube.put(make.job())
    kube.put(make.running(0))
    kube.logs["rec-0-abcde"] = LOG
    assert main(["job", "logs", "rec"]) == 0
    said = capsys.readouterr()
    assert said.out == "I1116 first line\nI1116 second line\n"
    assert "worker 0 of 3; others with --worker N" in said.err
    assert main(["job", "logs", "rec", "--server", "--worker", "0"]) == 0
    assert capsys.readouterr().out == "I1116 a server line\n"
    assert "no worker 7" in fails(capsys, "logs", "rec", "--worker", "7")


def test_logs_of_pods_that_are_gone_say_where_they_are(kube: RecordedKube, capsys: pytest.CaptureFixture[str]) -> None:
    kube.put(make.job(suspend=True, annotations={"umiak.dev/cancelled": "x"}))
    assert main(["job", "logs", "rec", "--worker", "1"]) == 0
    assert "all its logs are in node_1/ of rec/output on claim efsvol" in capsys.readouterr().err


def test_logs_begin_with_the_first_failure(kube: RecordedKube, capsys: pytest.CaptureFixture[str]) -> None:
    kube.put(make.job(conditions=make.ended("Failed")))
    kube.put(make.failed(0, 75, message=make.report("worker 2 ended", because_of=2)))
    kube.put(make.failed(2, 2, message=make.report("ValueError: boom", 2)))
    kube.logs["rec-2-abcde"] = "I1116 of worker 2\n"
    assert main(["job", "logs", "rec"]) == 0
    said = capsys.readouterr()
    assert said.out == "I1116 of worker 2\n"
    assert "first failure: worker 2" in said.err
    assert "ValueError: boom" in said.err


@pytest.mark.slow
def test_logs_are_followed_from_a_pod_to_its_replacement(
    kube: RecordedKube, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("umiak.jobs.logs.POLL_SECONDS", 0.05)
    job = kube.put(make.job())
    kube.put(make.failed(0, 75, name="rec-0-old", message=make.report("lost")))
    kube.logs["rec-0-old"] = "before\n"

    def asked(pod: str) -> None:
        """Until its log was asked for once more, and the answer given."""
        times = sum(f"/{pod}/log" in where for _, where in kube.requests)
        deadline = time.monotonic() + 20
        while sum(f"/{pod}/log" in where for _, where in kube.requests) < times + 2:
            assert time.monotonic() < deadline, kube.requests
            time.sleep(0.01)

    def replace() -> None:
        asked("rec-0-old")
        kube.logs["rec-0-new"] = "after\n"
        kube.put(make.running(0, name="rec-0-new", created="2026-11-16T09:06:00Z"))
        asked("rec-0-new")
        kube.logs["rec-0-new"] += "more\n"
        asked("rec-0-new")
        job["status"]["conditions"] = make.ended("Complete")

    thread = threading.Thread(target=replace)
    thread.start()
    assert main(["job", "logs", "-f", "rec"]) == 0
    thread.join()
    assert capsys.readouterr().out == "before\nafter\nmore\n"


def large(kube: RecordedKube, workers: int) -> None:
    """A job as large as its pods really are: what kubelet and server-side apply write about each is kept."""
    kube.put(make.job(workers=workers))
    padding = {"fieldsV1": {f"f:{number}": {"k:name": {".": {}, "f:value": {}}} for number in range(60)}}
    for worker in range(workers):
        item = make.running(worker, node=f"n{worker % 3 + 1}")
        item["metadata"]["managedFields"] = [padding, padding]
        kube.put(item)
    event = {"event": "round", "pass": 1, "batch": 1, "round": 9, "samples_per_s": 1.0, "cost": 1.0}
    kube.logs["rec-0-abcde"] = f"@umiak {json.dumps(event)}\n" * 3000


def cpu_seconds(*words: str) -> float:
    """Of a fresh process: what it takes on a machine that has nothing else to do, whatever this one does meanwhile."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "umiak.cli.main", *words], check=True, capture_output=True, env=os.environ)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize(("workers", "seconds"), [(3, 1.0), (1000, 3.0)])
def test_status_is_quick_and_asks_little(kube: RecordedKube, workers: int, seconds: float) -> None:
    large(kube, workers)
    assert cpu_seconds("job", "status", "rec") < seconds
    assert len(kube.requests) <= 5, "a status must not ask for every pod"


def test_init_writes_a_file_that_submits(kube: RecordedKube, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", "init", "--name", "rec", "--workers", "2"]) == 0
    assert main(["job", "submit"]) == 0
    assert kube.of("Job")[0]["spec"]["completions"] == 2
    capsys.readouterr()
    assert "job.yaml exists; edit it, or replace it with --overwrite" in fails(capsys, "init")
    assert "--name: must be of a-z" in fails(capsys, "init", "--name", "Bad_Name", "--overwrite")
    assert "--workers: must be 1 to 1000" in fails(capsys, "init", "--workers", "0", "--overwrite")


def test_init_takes_image_and_claim_from_the_cluster_that_umiak_made(kube: RecordedKube, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    content = json.loads(file.read_text())
    noted = {"image": "123.dkr.ecr.us-west-2.amazonaws.com/paddle:latest", "claim": "shared"}
    content["contexts"][0]["context"]["extensions"] = [{"name": "umiak.dev/cluster", "extension": noted}]
    file.write_text(json.dumps(content))
    assert main(["job", "init", "--name", "rec"]) == 0
    spec = yaml.safe_load(Path("job.yaml").read_text())
    assert (spec["image"], spec["volume"]["claim"]) == (noted["image"], "shared")
    assert kube.requests == []


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], "the following arguments are required: VERB; see umiak job --help"),
        (["fly"], "invalid choice: 'fly'"),
        (["submit", "none.yaml"], "none.yaml: no such file; write one with `umiak job init`"),
        (["logs", "rec", "--since", "soon"], "'soon' is not a time like 90s, 10m or 2h"),
        (["submit", "--dry-run=maybe"], "invalid choice: 'maybe'"),
    ],
)
def test_wrong_words(capsys: pytest.CaptureFixture[str], words: list[str], wanted: str) -> None:
    assert wanted in fails(capsys, *words)


@pytest.mark.parametrize("missing", ["yaml", "urllib3"])
def test_a_missing_extra_says_what_to_install(tmp_path: Path, missing: str) -> None:
    code = f"import sys; sys.modules['{missing}'] = None; from umiak.cli.main import main; exit(main(['job', 'status', 'x']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "pip install 'umiak[kube]'" in done.stderr


def test_job_verbs_load_neither_torch_nor_numpy(kube: RecordedKube) -> None:
    kube.put(make.job())
    code = (
        "import sys; from umiak.cli.main import main; assert main(['job', 'status', 'rec']) == 0\n"
        "assert not {'torch', 'numpy', 'boto3', 'cryptography'} & set(sys.modules), 'loaded what it does not need'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=os.environ)


def test_a_job_that_is_never_quite_deleted_is_not_waited_for_without_end(
    kube: RecordedKube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a finalizer that nobody removes."""
    monkeypatch.setattr(data, "DELETE_SECONDS", 0.3)
    kube.put(make.job("held"))
    with Api(kubeconfig.load(tmp_path / "kubeconfig", None, {})) as api:
        monkeypatch.setattr(Api, "delete", lambda *_, **options: None)
        with pytest.raises(RetryError, match="'held' is still being deleted after 0 s: see what holds it with kubectl"):
            data.delete(api, "default", "held")
