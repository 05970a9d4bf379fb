"""The real programs together: processes that are killed, tokens over TLS, and the `aws` CLI that sees what `status` says.

Time runs here, some hundred times faster than AWS's.
"""

from __future__ import annotations

import base64
import json
import os
import resource
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster_life import everything_goes, left
from tests.fake_aws import FakeAws
from tests.fake_aws.clock import Clock
from umiak.cluster.aws import Aws
from umiak.cluster.initial import text

pytest_plugins = ("tests.fake_aws.fixtures",)
SPEED = 250.0


@pytest.fixture
def running(aws: FakeAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAws]:
    """Time goes by itself; a cluster.yaml in an empty directory."""
    aws.clock = Clock(SPEED)
    (tmp_path / "cluster.yaml").write_text(text(everything_goes()))
    monkeypatch.chdir(tmp_path)
    # The kubeconfig's plugin is the `umiak` of this environment.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    yield aws
    with aws.lock:
        aws.clock.speed = 0.0


def umiak(*words: str, timeout: float = 240.0) -> str:
    command = [sys.executable, "-m", "umiak.cli.main", "cluster", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def kill_when(verb: str, moment: str) -> None:
    """kill -9 as soon as that has been printed."""
    command = [sys.executable, "-m", "umiak.cli.main", "cluster", verb, "--yes"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        seen = ""
        for line in process.stdout:
            seen += line
            if moment in line:
                break
        else:
            raise AssertionError(f"{moment!r} never came:\n{seen}")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()


def aws_cli(*words: str) -> Any:
    command = [sys.executable, "-m", "awscli", "--region", "us-west-2", "--output", "json", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_killed_during_up_and_during_destroy_and_seen_by_the_aws_cli(running: FakeAws) -> None:
    kill_when("up", "Vpc ")
    said = umiak("up", "--yes")
    assert "nodes ready: 3 of 3" in said
    assert "created PersistentVolumeClaim efsvol" in said
    status = json.loads(umiak("status", "--json"))
    (stack,) = aws_cli("cloudformation", "describe-stacks", "--stack-name", "paddle")["Stacks"]
    assert status["stack"] == stack["StackStatus"] == "CREATE_COMPLETE"
    resources = aws_cli("cloudformation", "describe-stack-resources", "--stack-name", "paddle")["StackResources"]
    assert sum(status["resources"].values()) == len(resources)
    cluster = aws_cli("eks", "describe-cluster", "--name", "paddle")["cluster"]
    assert (status["control_plane"], status["endpoint"]) == (cluster["status"], cluster["endpoint"])
    (group,) = aws_cli("eks", "list-nodegroups", "--cluster-name", "paddle")["nodegroups"]
    assert [entry["name"] for entry in status["groups"]] == [group]
    volumes = aws_cli("efs", "describe-file-systems", "--file-system-id", status["volume"])["FileSystems"]
    assert len(volumes) == 1
    kill_when("destroy", "removing node group")
    kill_when("destroy", "EKS::Addon")
    umiak("destroy", "--yes")
    assert left(running) == []
    assert json.loads(umiak("status", "--json"))["stack"] is None


def review(aws: FakeAws, token: str) -> dict[str, Any]:
    """What an API server's webhook asks the fake."""
    body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}})
    with urllib.request.urlopen(f"{aws.endpoint}/token-review", data=body.encode(), timeout=30) as answer:
        status: dict[str, Any] = json.load(answer)["status"]
    return status


def test_token_says_who_we_are_to_our_cluster_only(aws: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
    from umiak.cluster import template

    aws.deploy("paddle", template.text(everything_goes()))
    printed = json.loads(umiak("token", "--name", "paddle", "--region", "us-west-2"))
    assert printed["kind"] == "ExecCredential"
    token = printed["status"]["token"]
    status = review(aws, token)
    assert status["authenticated"], status
    assert status["user"]["username"] == aws.admin.arn
    assert "system:masters" in status["user"]["groups"]
    assert not review(aws, Aws("us-west-2").token("another"))["authenticated"]
    head, _, body = token.partition(".")
    url = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()
    for changed in (url.replace("GetCallerIdentity", "GetSessionToken"), url.replace("Signature=", "Signature=0")):
        forged = head + "." + base64.urlsafe_b64encode(changed.encode()).decode().rstrip("=")
        assert not review(aws, forged)["authenticated"]
    stranger = aws.people.user("Stranger")
    for name, value in stranger.environment.items():
        monkeypatch.setenv(name, value)
    assert not review(aws, Aws("us-west-2").token("paddle"))["authenticated"], "no access entry, no entry"


def test_token_takes_less_than_two_seconds_and_loads_nothing_heavy(aws: FakeAws) -> None:
    """kubectl waits for it."""
    code = (
        "import sys; from umiak.cli.main import main\n"
        "assert main(['cluster', 'token', '--name', 'paddle', '--region', 'us-west-2']) == 0\n"
        "assert not {'torch', 'numpy', 'troposphere'} & set(sys.modules), 'loaded what it does not need'"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2.0
