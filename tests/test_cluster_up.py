"""`umiak cluster up` brings a cluster up, changes it, and after any accident the same command resumes."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import botocore.session
import pytest
import yaml

from tests.cluster_life import Killed, Life, everything_goes, life
from tests.cluster_options import chosen, spec
from tests.fake_aws import FakeAws
from tests.fake_aws.front import LOST, LOST_AFTER
from tests.fake_aws.operations import Break
from umiak.cluster import difference, states, template
from umiak.kube import kubeconfig
from umiak.spec.cluster import ClusterSpec

pytest_plugins = ("tests.fake_aws.fixtures",)
__all__ = ["life"]


def nodes(count: int, **changes: object) -> ClusterSpec:
    base = everything_goes()
    return replace(base, nodes=replace(base.nodes, count=count, **changes))  # type: ignore[arg-type]


def test_up_then_paused_then_awake_then_gone(life: Life) -> None:
    assert life.up() == 0, life.output
    life.assert_up(nodes=3)
    for wanted in ("$0.47 an hour", " 48/48 ", "nodes ready: 3 of 3", "umiak image push", "umiak job init"):
        assert wanted in life.output, wanted
    life.write(nodes(0))
    assert life.run("diff") == 0
    assert "ScalingConfig.DesiredSize: 3 → 0" in life.output
    assert life.up() == 0, life.output
    life.assert_up(nodes=0)
    life.write(nodes(3))
    assert life.up() == 0, life.output
    life.assert_up(nodes=3)
    assert life.up() == 0
    assert "matches cluster.yaml" in life.output
    assert life.destroy() == 0, life.output
    life.assert_nothing_left()


def test_other_node_types_replace_the_nodes_and_nothing_else(life: Life) -> None:
    assert life.up() == 0, life.output
    life.write(nodes(2, types=("m5.large",)))
    assert life.up() == 0, life.output
    assert "Nodes EKS::Nodegroup  (replaced by a new one)" in life.output
    assert {item["InstanceType"] for item in life.aws.eks.instances("paddle")} == {"m5.large"}
    assert len(life.aws.eks.node_groups) == 1


def test_change_that_would_lose_data_is_refused_and_changes_nothing(life: Life) -> None:
    assert life.up() == 0, life.output
    before = life.aws.stacks.stacks["us-west-2", "paddle"].body
    base = everything_goes()
    life.write(replace(base, network=replace(base.network, cidr="10.30.0.0/16")))
    assert life.up() == 2
    assert "in place of the old" in life.output
    assert life.aws.stacks.stacks["us-west-2", "paddle"].body == before


@pytest.mark.parametrize("answer", ["", "n", None], ids=["enter", "no", "nobody"])
def test_without_a_yes_nothing_is_created(life: Life, answer: str | None) -> None:
    life.patch.setattr("sys.stdin.isatty", lambda: answer is not None, raising=False)
    life.patch.setattr("builtins.input", lambda _: answer)
    assert life.run("up") == (2 if answer is None else 0)
    life.assert_nothing_left()


# What happens during the first `up`, and what it says; then the same command finishes the job.
ACCIDENTS: dict[str, tuple[Callable[[FakeAws], object], str]] = {
    "throttled once": (lambda aws: aws.fail("cloudformation", "CreateChangeSet", "Throttling", 2), ""),
    "throttled for minutes": (
        lambda aws: aws.fail("cloudformation", "DescribeStackEvents", "Throttling", 200, skip=3),
        "AWS is busy",
    ),
    "session ends while waiting": (
        lambda aws: aws.fail("cloudformation", "DescribeStackEvents", "ExpiredToken", 1, skip=10),
        "have expired",
    ),
    "not allowed to create": (
        lambda aws: aws.fail("cloudformation", "CreateChangeSet", "AccessDenied", 1),
        "not allowed to do cloudformation:CreateChangeSet",
    ),
    "not allowed to execute": (
        lambda aws: aws.fail("cloudformation", "ExecuteChangeSet", "AccessDenied", 1),
        "not allowed to do cloudformation:ExecuteChangeSet",
    ),
    "connection lost before the plan": (lambda aws: aws.fail("cloudformation", "CreateChangeSet", LOST, 1), ""),
    "connection lost after the plan": (lambda aws: aws.fail("cloudformation", "CreateChangeSet", LOST_AFTER, 1), ""),
    "connection lost after the start": (lambda aws: aws.fail("cloudformation", "ExecuteChangeSet", LOST_AFTER, 1), ""),
    "network gone": (
        lambda aws: aws.fail("cloudformation", "DescribeStackEvents", LOST, 500, skip=5),
        "cannot reach AWS",
    ),
    "zone unsupported": (
        lambda aws: breaks(aws, "Cluster", "UnsupportedAvailabilityZoneException: us-west-2a cannot hold it", False),
        "choose other zones",
    ),
    "quota exceeded": (
        lambda aws: breaks(aws, "NatAddress1", "AddressLimitExceeded: The maximum number of addresses", False),
        "Service Quotas",
    ),
    "denied midway": (
        lambda aws: breaks(aws, "Cluster", "User is not authorized to perform: eks:CreateCluster", False),
        "attach the policies",
    ),
    "control plane fails midway": (lambda aws: breaks(aws, "Cluster", "Internal Failure"), "failed first: Cluster"),
    "nodes fail midway": (
        lambda aws: breaks(aws, "Nodes", "InsufficientInstanceCapacity in us-west-2a"),
        "other nodes.types",
    ),
    "add-on fails at the end": (lambda aws: breaks(aws, "CoreDns", "stayed DEGRADED"), "failed first: CoreDns"),
    "rollback fails too": (
        lambda aws: (breaks(aws, "Nodes", "Internal Failure"), sticks(aws, "Cluster"), sticks(aws, "Volume")),
        "failed first: Nodes",
    ),
    "kubeconfig cannot be made": (
        lambda aws: aws.fail("eks", "DescribeCluster", "ServerException", 20, skip=1),
        "ServerException",
    ),
    "nodes never ready": (lambda aws: setattr(aws.kubernetes, "unready", 2), "is not done after 15 minutes"),
}


def breaks(aws: FakeAws, title: str, reason: str, midway: bool = True) -> None:
    aws.stacks.operations.breaks[title] = Break(reason, 1, midway)


def sticks(aws: FakeAws, title: str, times: int = 1) -> None:
    aws.stacks.operations.sticks[title] = Break("Internal Failure", times)


@pytest.mark.parametrize("accident", ACCIDENTS)
def test_after_an_accident_the_same_command_goes_on(life: Life, accident: str) -> None:
    arrange, said = ACCIDENTS[accident]
    arrange(life.aws)
    code = life.up()
    assert (code == 0) == (said == ""), life.output
    assert said in life.output
    life.aws.faults.clear()
    life.aws.kubernetes.unready = 0
    life.until_done(life.up, tries=1)
    life.assert_up()
    if code:
        assert life.destroy() == 0, life.output
        life.assert_nothing_left()


@pytest.mark.parametrize("broken", [["Nodes"], ["Nodes", "Nodes"]], ids=["undone", "not even undone"])
def test_change_that_fails_is_undone_and_tried_again(life: Life, broken: list[str]) -> None:
    assert life.up() == 0
    life.write(nodes(1))
    life.aws.stacks.operations.breaks["Nodes"] = Break("Internal Failure", len(broken))
    assert life.up() == 1
    assert "failed first: Nodes" in life.output
    assert life.up() == 0, life.output
    life.assert_up(nodes=1)


def test_stack_of_somebody_else_is_refused_by_every_verb(life: Life) -> None:
    body = {"Resources": {"Hook": {"Type": "AWS::EC2::InternetGateway", "Properties": {"Tags": []}}}}
    life.aws.deploy("paddle", json.dumps(body))
    for verb in (["up", "--yes"], ["destroy", "--yes"], ["status"], ["diff"]):
        assert life.run(*verb) == 2
        assert "is not an umiak cluster" in life.output
    assert life.status() == "CREATE_COMPLETE"


def test_stack_an_administrator_deployed_is_taken_over(life: Life) -> None:
    assert life.aws.deploy("paddle", template.text(everything_goes())) == "CREATE_COMPLETE"
    assert life.run("diff") == 0
    assert "cluster paddle matches cluster.yaml" in life.output
    assert life.up() == 0, life.output
    life.assert_up()
    assert life.destroy() == 0, life.output
    life.assert_nothing_left()


def test_stack_an_administrator_failed_to_deploy_is_cleaned(life: Life) -> None:
    breaks(life.aws, "Nodes", "Internal Failure")
    assert life.aws.deploy("paddle", template.text(chosen([("api", "one")]))) == "CREATE_FAILED"
    life.write(chosen([("api", "one")]))
    assert life.up() == 0, life.output
    life.assert_up()
    life.write(everything_goes())
    assert life.destroy() == 0, life.output
    life.assert_nothing_left()


def test_unfinished_destroy_is_not_resumed_by_up(life: Life) -> None:
    assert life.up() == 0
    sticks(life.aws, "Cluster", 1)
    life.aws.client("cloudformation").delete_stack(StackName="paddle")
    life.aws.settle()
    assert life.status() == "DELETE_FAILED"
    assert life.up() == 2
    assert "finish it with `umiak cluster destroy`" in life.output


@pytest.mark.parametrize("state", ["is DELETING", "is gone"])
def test_up_after_half_a_destroy_says_what_to_do_at_once(life: Life, state: str) -> None:
    """The stack is whole and its template right, but the nodes are gone or going."""
    assert life.up() == 0, life.output
    with life.patch.context() as patch:
        dying = Life(life.aws, life.directory, patch)
        dying.kill_before("DeleteStack") if state == "is gone" else dying.kill_past("DeleteNodegroup", 1)
        with pytest.raises(Killed):
            life.destroy()
    assert life.status() == "CREATE_COMPLETE"
    began = life.aws.clock.seconds
    assert life.up() == 2, life.output
    assert state in life.output
    assert "Run `umiak cluster destroy`" in life.output
    assert life.aws.clock.seconds - began < 60, "it waited for nodes that never come"
    assert life.destroy() == 0, life.output
    assert life.up() == 0, life.output
    life.assert_up()


def test_nodes_scaled_by_hand_are_not_waited_for(life: Life) -> None:
    assert life.up() == 0
    (name,) = [group for _, group in life.aws.eks.node_groups]
    scaling = {"minSize": 0, "desiredSize": 1, "maxSize": 3}
    life.aws.client("eks").update_nodegroup_config(clusterName="paddle", nodegroupName=name, scalingConfig=scaling)
    assert life.up() == 2
    assert f"update-nodegroup-config --region us-west-2 --cluster-name paddle --nodegroup-name {name}" in life.output


def test_nodes_that_do_not_come_are_explained_in_the_words_of_eks(life: Life) -> None:
    assert life.up() == 0
    life.aws.kubernetes.unready = 2
    (group,) = life.aws.eks.node_groups.values()
    group["issues"] = [{"code": "AsgInstanceLaunchFailures", "message": "InsufficientInstanceCapacity in us-west-2a"}]
    assert life.up() == 75
    assert "EKS says about the nodes: InsufficientInstanceCapacity in us-west-2a" in life.output


def test_private_api_server_says_where_to_run_it(life: Life, aws: FakeAws) -> None:
    from umiak.errors import RetryError

    class Unreachable:
        def items(self, where: str) -> list[object]:
            raise RetryError("cannot reach it")

    life.patch.setattr("umiak.cli.cluster_life._connect", lambda path: Unreachable())
    life.write(chosen([("destroy", "all")]))
    assert life.up() == 75
    assert "only from inside its VPC" in life.output


def test_polling_never_hammers_and_the_end_is_known_soon(life: Life) -> None:
    assert life.up() == 0
    executed = next(i for i, call in enumerate(life.aws.journal) if call.operation == "ExecuteChangeSet")
    polls = [
        when
        for call, when in list(zip(life.aws.journal, life.aws.times, strict=True))[executed:]
        if call.operation == "DescribeStackEvents"
    ]
    for start in range(int(polls[0]), int(polls[-1])):
        assert sum(start <= when < start + 60 for when in polls) <= 20, "more than 20 calls in a minute"
    stack = life.aws.stacks.stacks["us-west-2", "paddle"]
    epoch = life.aws.clock.now().timestamp() - life.aws.clock.seconds
    done = stack.events[-1].timestamp.timestamp() - epoch
    assert min(when for when in polls if when >= done) - done < 15


def test_kubeconfig_belongs_to_its_cluster_and_to_its_user(life: Life) -> None:
    assert life.up() == 0
    path = Path("kubeconfig")
    content = yaml.safe_load(path.read_text())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    plugin = content["users"][0]["user"]["exec"]
    assert plugin["args"][-6:] == ["cluster", "token", "--name", "paddle", "--region", "us-west-2"]
    (extension,) = content["contexts"][0]["context"]["extensions"]
    assert extension["extension"]["claim"] == "efsvol"
    assert ".dkr.ecr.us-west-2.amazonaws.com/paddle-images-" in extension["extension"]["image"]
    assert kubeconfig.load(None, None, {}).plugin is not None, "used unasked, because it was written here"
    path.write_text(f"{path.read_text()}# changed\n")
    assert life.run("destroy", "--yes") == 2
    assert "was changed since: write it again with `umiak cluster kubeconfig`" in life.output
    assert life.run("kubeconfig") == 0
    assert kubeconfig.load(None, None, {}).plugin is not None
    path.write_text("current-context: another\n")
    assert life.run("kubeconfig") == 2
    assert "does not belong to paddle" in life.output
    assert life.run("kubeconfig", "--kubeconfig", "second") == 0


def test_status_says_what_there_is(life: Life) -> None:
    assert life.run("status") == 0
    assert "not created" in life.output
    breaks(life.aws, "Nodes", "no machine free")
    life.aws.interfaces.leaks = 0
    assert life.up() == 1
    assert life.run("status") == 0
    assert "stack          ROLLBACK_COMPLETE" in life.output
    assert life.up() == 0
    assert life.run("status", "--json", "--watch") == 0
    found = json.loads(life.output)
    assert (found["stack"], found["control_plane"], found["nodes_running"]) == ("CREATE_COMPLETE", "ACTIVE", 3)
    assert found["per_hour"] == "$0.47 an hour"
    assert found["mount_targets"] == {"available": 2}


def test_spec_without_nodes_is_refused_before_anything_is_made(life: Life) -> None:
    life.write(nodes(0))
    assert life.up() == 2
    assert "cannot be created without nodes" in life.output
    life.assert_nothing_left()


def test_errors_of_the_checks_stop_it_and_with_force_are_listed_and_passed(life: Life) -> None:
    """The fake has no room for another VPC by its Service Quotas, and makes one all the same, as AWS does when it was raised."""
    from umiak.cluster import checks
    from umiak.cluster.checks import quotas

    life.patch.setitem(checks.ONLINE, "quotas", quotas.check)
    life.aws.quotas.applied["eks", "L-1194D53C"] = 0
    assert life.up() == 2
    assert "EKS clusters: 0 of 0 in use" in life.output
    assert "continue anyway with --force" in life.output
    life.assert_nothing_left()
    assert life.run("up", "--yes", "--force") == 0, life.output
    assert "EKS clusters: 0 of 0 in use" in life.output
    assert "--force: continuing past 1 error listed above" in life.output
    life.assert_up()


def test_root_cannot_be_the_administrator(life: Life) -> None:
    person = life.aws.people.root()
    for name, value in person.environment.items():
        life.patch.setenv(name, value)
    life.write(replace(spec(), destroy=everything_goes().destroy))
    assert life.up() == 2
    assert "EKS requires a role or user as administrator" in life.output


def test_every_status_that_cloudformation_knows_has_its_step() -> None:
    model = botocore.session.get_session().get_service_model("cloudformation")
    known = {status for status in model.shape_for("StackStatus").enum if not status.startswith("IMPORT_")}
    # A stack that is deleted is none.
    assert known - {"DELETE_COMPLETE"} == {status for status in states.UP if status}
    for status in known:
        assert states.at_work(status) == (status.endswith("_IN_PROGRESS") and status != "REVIEW_IN_PROGRESS")
    assert states.up("DELETE_FAILED", was_whole=True) is states.Step.REFUSE
    assert states.up("DELETE_FAILED", was_whole=False) is states.Step.CLEAN


def test_difference_names_the_place_and_both_values() -> None:
    old, new = template.build(everything_goes()), template.build(nodes(5, key_name="laptop"))
    found = {change.title: change for change in difference.changes(old, new)}
    assert ("ScalingConfig.DesiredSize", 3, 5) in found["Nodes"].details
    assert ("LaunchTemplateData.KeyName", None, "laptop") in found["NodeTemplate"].details
    assert difference.changes(old, old) == []
    gone = {"Resources": {"Vpc": old["Resources"]["Vpc"]}}
    assert {change.action for change in difference.changes(old, gone)} == {"remove"}
    assert {change.action for change in difference.changes(gone, old)} == {"add"}
