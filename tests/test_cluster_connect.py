"""`umiak cluster connect`: a private API server is reached through the bastion. AWS's plugin is not here: a stand-in with its
command line forwards to the fake's API server, with TLS under the server's own name."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from moto.iam.models import iam_backends

from tests.cluster_life import Killed, Kubernetes, Life, everything_goes, life
from tests.cluster_options import chosen
from tests.fake_aws import FakeAws
from tests.fake_aws import plugin as standin
from tests.fake_aws.apiserver import PRIVATE
from tests.fake_aws.operations import Break
from tests.fake_aws.people import ACCOUNT
from umiak.cli import cluster_life
from umiak.cluster import boundary, checks, connect, policy, template
from umiak.cluster.aws import Aws
from umiak.cluster.checks import reach
from umiak.errors import RetryError
from umiak.kube import kubeconfig
from umiak.kube.api import Api
from umiak.spec.cluster import ClusterSpec

pytest_plugins = ("tests.fake_aws.fixtures",)
__all__ = ["life"]
connected = cluster_life._connect
LIST = (
    "from umiak.kube import kubeconfig; from umiak.kube.api import Api; import os, sys\n"
    "print('nodes', len(Api(kubeconfig.load(None, None, os.environ)).items('/api/v1/nodes'))); sys.exit(7)"
)


def private() -> ClusterSpec:
    return chosen([("api", "private"), ("destroy", "all")])


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in on the path; what it was called with is in this file."""
    directory = tmp_path / "bin"
    directory.mkdir()
    program = directory / connect.PLUGIN
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {standin.__file__} "$@"\n')
    program.chmod(0o755)
    path = os.pathsep.join((str(directory), str(Path(sys.executable).parent), os.environ["PATH"]))
    monkeypatch.setenv("PATH", path)
    monkeypatch.setenv("UMIAK_TEST_PLUGIN", str(tmp_path / "told"))
    return tmp_path / "told"


@pytest.fixture
def closed(life: Life, told: Path) -> Life:
    """A cluster.yaml with a private API server, which has a name that only the VPC resolves; TLS and tokens are real."""
    life.write(private())
    port = life.aws.kubernetes.endpoint.rpartition(":")[2]
    life.patch.setattr(life.aws.kubernetes, "endpoint", f"https://{PRIVATE}:{port}")
    return life


def process(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "umiak.cli.main", "cluster", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_private_cluster_is_made_used_and_removed_from_here(closed: Life, told: Path) -> None:
    closed.patch.setattr(cluster_life, "_connect", connected)
    assert closed.up() == 0, closed.output
    closed.assert_up()
    assert "nodes ready: 3 of 3" in closed.output
    called = json.loads(told.read_text())
    assert "secret-token" not in " ".join(called["argv"]), "other users of this machine would see it"
    assert called["request"]["DocumentName"] == "AWS-StartPortForwardingSessionToRemoteHost"
    assert called["request"]["Parameters"]["host"] == [PRIVATE]
    assert (called["region"], called["endpoint"]) == ("us-west-2", closed.aws.endpoint)
    (cluster,) = [entry["cluster"] for entry in yaml.safe_load(Path("kubeconfig").read_text())["clusters"]]
    assert cluster["tls-server-name"] == PRIVATE
    assert cluster["server"].startswith("https://127.0.0.1:")
    # What somebody does next: a command that needs the API server.
    ran = process("connect", "--", sys.executable, "-c", LIST)
    out, err = ran.communicate(timeout=120)
    assert (ran.returncode, out.splitlines()[-1]) == (7, "nodes 3"), err
    assert closed.destroy() == 0, closed.output
    closed.assert_nothing_left()


def test_connect_lasts_until_ctrl_c_and_leaves_no_process(closed: Life) -> None:
    assert closed.up() == 0, closed.output
    running = process("connect")
    assert running.stdout is not None
    try:
        line = running.stdout.readline()
        assert "stop with Ctrl-C" in line, line
        with Api(kubeconfig.load(Path("kubeconfig"), None, {})) as api:
            assert len(api.items("/api/v1/nodes")) == 3
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)
    assert running.returncode == 0
    with (
        Api(kubeconfig.load(Path("kubeconfig"), None, {})) as api,
        pytest.raises(RetryError, match="run `umiak cluster connect` in another terminal"),
    ):
        api.items("/api/v1/nodes")


def test_missing_plugin_is_said_before_anything_is_billed(life: Life) -> None:
    life.write(private())
    life.patch.setenv("PATH", "/nowhere")
    life.patch.setitem(checks.ONLINE, "api server", reach.check)
    assert life.up() == 2
    assert "session-manager-plugin, which is not installed here" in life.output
    assert connect.MANUAL in life.output.replace("\n", "").replace(" ", "")
    life.assert_nothing_left()


def test_plugin_that_fails_is_quoted_and_the_same_command_finishes(closed: Life) -> None:
    closed.patch.setenv("UMIAK_TEST_PLUGIN_FAILS", "yes")
    assert closed.up() == 75
    assert "session-manager-plugin ended with 1: Cannot perform start session: EOF; try again" in closed.output
    closed.patch.delenv("UMIAK_TEST_PLUGIN_FAILS")
    assert closed.up() == 0, closed.output
    closed.assert_up()


def test_older_plugin_gets_its_session_as_an_argument(closed: Life, told: Path) -> None:
    closed.patch.setenv("UMIAK_TEST_PLUGIN_VERSION", "1.2.497.0")
    assert closed.up() == 0, closed.output
    assert "secret-token" in json.loads(told.read_text())["argv"][0]


@pytest.mark.parametrize("midway", [False, True], ids=["refused", "fails"])
@pytest.mark.parametrize(
    "title", ["BastionRole", "BastionProfile", "BastionSecurityGroup", "BastionToApiServer", "Bastion"]
)
def test_failure_of_each_part_is_cleaned_up_and_tried_again(closed: Life, title: str, midway: bool) -> None:
    closed.aws.stacks.operations.breaks[title] = Break("Internal Failure", 1, midway)
    assert closed.up() == 1
    assert f"failed first: {title}" in closed.output
    assert closed.up() == 0, closed.output
    assert closed.destroy() == 0, closed.output
    closed.assert_nothing_left()


@pytest.mark.parametrize("call", ["StartSession", "DescribeCluster", "GetPolicy", "CreatePolicy"])
def test_killed_at_each_new_call_the_same_command_finishes(closed: Life, call: str) -> None:
    prepare, left = Aws._prepare, 1

    def killing(self: Aws, service: str, operation: str, region: str | None) -> object:
        nonlocal left
        if operation == call and left:
            left -= 1
            raise Killed
        return prepare(self, service, operation, region)

    closed.patch.setattr(Aws, "_prepare", killing)
    closed.until_done(closed.up, tries=2)
    assert left == 0
    closed.assert_up()


def test_api_access_can_be_changed_there_and_back(life: Life, told: Path) -> None:
    life.write(everything_goes())
    assert life.up() == 0, life.output
    assert life.run("connect") == 2
    assert "has nothing to connect through: create it with `umiak cluster up --api-access private`" in life.output
    assert life.run("up", "--yes", "--api-access", "private") == 0, life.output
    assert "+ Bastion EC2::Instance" in life.output
    config = life.aws.client("eks").describe_cluster(name="paddle")["cluster"]["resourcesVpcConfig"]
    assert config["endpointPublicAccess"] is False
    assert life.run("up", "--yes", "--api-access", "mine") == 0, life.output
    assert "- Bastion EC2::Instance" in life.output
    assert not [role for role in iam_backends[ACCOUNT]["aws"].roles.values() if "bastion" in role.name]
    assert life.destroy() == 0, life.output
    life.assert_nothing_left()


def test_who_holds_only_the_printed_policies_goes_all_the_way(closed: Life) -> None:
    closed.aws.client("iam").create_policy(
        PolicyName="paddle-us-west-2-boundary", PolicyDocument=boundary.text(private())
    )
    built = policy.documents(private(), template.types(template.build(private())))
    person = closed.aws.people.user("Deployer", *(json.loads(policy.text(items)) for items in built.values()))
    for name, value in person.environment.items():
        closed.patch.setenv(name, value)
    assert closed.up() == 0, closed.output
    ran = process("connect", "--", sys.executable, "-c", LIST)
    out, err = ran.communicate(timeout=120)
    assert (ran.returncode, out.splitlines()[-1:]) == (7, ["nodes 3"]), err
    assert closed.destroy() == 0, closed.output
    closed.assert_nothing_left()


def test_session_is_opened_on_our_own_instance_only(aws: FakeAws) -> None:
    """And with that one document: not a shell."""
    use = json.loads(policy.text(policy.documents(private(), template.types(template.build(private())))["use"]))
    person = aws.people.user("Worker", use)
    instance, root = "arn:aws:ec2:us-west-2:123456789012:instance/i-1", "arn:aws:ssm:us-west-2::document"
    ours, theirs = {"ssm:resourceTag/umiak:cluster": ["paddle"]}, {"ssm:resourceTag/umiak:cluster": ["other"]}
    assert person.decides("ssm:StartSession", instance, ours) == "allowed"
    assert person.decides("ssm:StartSession", instance, theirs) == "implicitDeny"
    assert person.decides("ssm:StartSession", f"{root}/{connect.DOCUMENT}", {}) == "allowed"
    assert person.decides("ssm:StartSession", f"{root}/SSM-SessionManagerRunShell", {}) == "implicitDeny"


def test_way_in_is_on_the_bill(closed: Life) -> None:
    assert closed.run("cost") == 0
    assert "bastion, t4g.nano" in closed.output
    closed.patch.setattr(cluster_life, "_connect", lambda path: Kubernetes(closed.aws))
    assert closed.up() == 0, closed.output
    assert closed.run("cost") == 0
    assert "bastion i-" in closed.output
