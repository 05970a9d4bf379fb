"""Killed at any call that changes something, every command is resumed by itself, and `destroy` leaves nothing.

Each kill costs seconds, so a command is not killed again (`only`) where another test kills the same command in the same state:
what `up` does after it has removed, undone or discarded something is what it does without that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.cluster_kill import at_every_change, changes
from tests.cluster_life import Life, everything_goes, life
from tests.fake_aws import eks
from tests.fake_aws.operations import Break
from tests.test_cluster_destroy import balancers, fill_bucket, protect, push_image
from tests.test_cluster_ownership import data, keeping, kept_before
from tests.test_cluster_up import breaks
from tests.test_cluster_versions import at, running, whole
from umiak.cluster import template
from umiak.cluster.actions import ADMINISTERS, CHANGES
from umiak.cluster.stacks import CHANGE_SET
from umiak.spec.cluster import ClusterSpec

pytest_plugins = ("tests.fake_aws.fixtures",)
__all__ = ["life"]


# Which operations each command is killed at. Calls are found by running the command: a new one is killed at by itself, and then
# this table says so.
STACK = {"cloudformation:CreateChangeSet", "cloudformation:ExecuteChangeSet"}
KILLED = {
    "up": STACK | {"iam:CreatePolicy"},
    "up of a creation that failed": {"cloudformation:DeleteStack"},
    "up of a plan that was not carried out": {"cloudformation:DeleteStack"},
    "up of a change that was only planned": {"cloudformation:DeleteChangeSet"},
    "up of a change that could not even be undone": {"cloudformation:ContinueUpdateRollback"},
    "up --reuse": STACK | {"efs:PutFileSystemPolicy"},
    "up to a newer version": STACK | {"eks:UpdateAddon"},
    "patch": {"eks:UpdateAddon", "eks:UpdateNodegroupVersion"},
    "destroy": {
        "cloudformation:DeleteStack",
        "cloudformation:UpdateTerminationProtection",
        "ec2:DeleteSecurityGroup",
        "ec2:DeleteVolume",
        "ec2:DeleteVpcEndpoints",
        "ecr:DeleteRepository",
        "efs:DeleteFileSystem",
        "eks:DeleteNodegroup",
        "eks:UpdateClusterConfig",
        "elb:DeleteLoadBalancer",
        "elbv2:DeleteLoadBalancer",
        "kms:ScheduleKeyDeletion",
        "logs:DeleteLogGroup",
        "s3:AbortMultipartUpload",
        "s3:DeleteBucket",
        "s3:DeleteObjects",
    },
    "destroy of a plan that was not carried out": {"cloudformation:DeleteStack"},
    "destroy of a volume that is mounted elsewhere": {"efs:DeleteMountTarget"},
    "destroy of what up made": {"ec2:DeleteNetworkInterface", "iam:DeletePolicy"},
}


def gone(life: Life, *words: str, but: frozenset[str] = frozenset()) -> Callable[[], None]:
    """What follows a kill: the same command succeeds, and a destroy leaves nothing but what was there before."""

    def again() -> None:
        assert life.run(*words) == 0, life.output
        if words[0] != "destroy":
            assert life.destroy() == 0, life.output
        assert data(life.aws) == but
        if not but:
            life.assert_nothing_left()

    return again


def test_up(life: Life) -> None:
    seen = at_every_change(life, life.up, gone(life, "up", "--yes"))
    assert seen == KILLED["up"]


def test_up_of_a_creation_that_failed(life: Life) -> None:
    breaks(life.aws, "Cluster", "no capacity")
    assert life.up() == 1, life.output
    only = KILLED["up of a creation that failed"]
    assert at_every_change(life, life.up, gone(life, "up", "--yes"), only=only) == only


def planned(life: Life, kind: str, spec: ClusterSpec) -> None:
    """What an `up` leaves that is killed after it has planned."""
    admin = [{"ParameterKey": "AdminArn", "ParameterValue": life.aws.admin.principal}]
    life.aws.client("cloudformation").create_change_set(
        StackName="paddle",
        ChangeSetName=CHANGE_SET,
        ChangeSetType=kind,
        TemplateBody=template.text(spec),
        Parameters=admin,
        Capabilities=["CAPABILITY_NAMED_IAM"],
    )


def test_up_of_a_plan_that_was_not_carried_out(life: Life) -> None:
    planned(life, "CREATE", everything_goes())
    only = KILLED["up of a plan that was not carried out"]
    assert at_every_change(life, life.up, gone(life, "up", "--yes"), only=only) == only


def test_destroy_of_a_plan_that_was_not_carried_out(life: Life) -> None:
    planned(life, "CREATE", everything_goes())
    seen = at_every_change(life, life.destroy, gone(life, "destroy", "--yes"))
    assert seen == KILLED["destroy of a plan that was not carried out"]


def test_up_of_a_change_that_was_only_planned(life: Life) -> None:
    assert life.aws.deploy("paddle", template.text(everything_goes())) == "CREATE_COMPLETE"
    base = everything_goes()
    wanted = replace(base, nodes=replace(base.nodes, count=5))
    life.write(wanted)
    planned(life, "UPDATE", wanted)
    only = KILLED["up of a change that was only planned"]
    assert at_every_change(life, life.up, gone(life, "up", "--yes"), only=only) == only


def test_up_of_a_change_that_could_not_even_be_undone(life: Life) -> None:
    assert life.aws.deploy("paddle", template.text(everything_goes())) == "CREATE_COMPLETE"
    base = everything_goes()
    life.write(replace(base, nodes=replace(base.nodes, count=5)))
    life.aws.stacks.operations.breaks["Nodes"] = Break("no capacity", 2)
    assert life.up() == 1, life.output
    assert life.status() == "UPDATE_ROLLBACK_FAILED"
    only = KILLED["up of a change that could not even be undone"]
    assert at_every_change(life, life.up, gone(life, "up", "--yes"), only=only) == only


def test_up_that_uses_what_an_earlier_cluster_kept(life: Life) -> None:
    before = frozenset(kept_before(life))
    life.write(everything_goes())
    words = ("up", "--yes", "--reuse")
    seen = at_every_change(life, lambda: life.run(*words), gone(life, *words, but=before))
    assert seen == KILLED["up --reuse"]


def test_up_to_a_newer_version(life: Life) -> None:
    assert life.aws.deploy("paddle", template.text(at("1.36"))) == "CREATE_COMPLETE"
    life.write(at("1.37"))
    seen = at_every_change(life, life.up, gone(life, "up", "--yes"))
    assert seen == KILLED["up to a newer version"]
    assert running(life.aws) == whole("1.37")


def test_patch(life: Life) -> None:
    assert life.aws.deploy("paddle", template.text(at("1.37"))) == "CREATE_COMPLETE"
    life.write(at("1.37"))
    life.aws.eks.build = 2
    seen = at_every_change(life, lambda: life.run("patch", "--yes"), gone(life, "patch", "--yes"))
    assert seen == KILLED["patch"]
    assert running(life.aws) == whole("1.37", 2)


@pytest.mark.parametrize("part", [0, 1])
def test_destroy_with_everything_in_its_way_of_a_cluster_that_would_keep_its_data(life: Life, part: int) -> None:
    before = frozenset(kept_before(life))
    life.write(everything_goes())
    assert life.aws.deploy("paddle", template.text(keeping())) == "CREATE_COMPLETE"
    life.aws.clock.advance(600)
    protect(life.aws)
    balancers(life.aws)
    fill_bucket(life.aws, before)
    push_image(life.aws, before)
    life.aws.eks.inject_disk("paddle")
    life.aws.guardduty.inject()
    # The last words of the control plane come between the removal of their group and the end of the stack.
    life.aws.eks.late_logs = True
    life.patch.setattr(eks, "LATE", 8.0)
    seen = at_every_change(life, life.destroy, gone(life, "destroy", "--yes", but=before), (part, 2))
    assert seen == KILLED["destroy"]


def test_destroy_of_what_up_made_with_its_boundary_and_a_forgotten_interface(life: Life) -> None:
    assert life.up() == 0, life.output
    life.aws.interfaces.leaks = 1
    only = KILLED["destroy of what up made"]
    seen = at_every_change(life, life.destroy, gone(life, "destroy", "--yes"), only=only)
    assert seen == only


def test_destroy_of_a_volume_that_is_mounted_elsewhere(life: Life) -> None:
    """Its stack is gone and kept it; somebody has mounted it in another network since."""
    assert life.aws.deploy("paddle", template.text(keeping())) == "CREATE_COMPLETE"
    life.aws.client("cloudformation").delete_stack(StackName="paddle")
    life.aws.settle()
    ec2, efs = life.aws.client("ec2"), life.aws.client("efs")
    subnet = ec2.describe_subnets()["Subnets"][0]
    group = ec2.describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [subnet["VpcId"]]}])["SecurityGroups"][0]
    volume = efs.describe_file_systems()["FileSystems"][0]["FileSystemId"]
    efs.create_mount_target(FileSystemId=volume, SubnetId=subnet["SubnetId"], SecurityGroups=[group["GroupId"]])
    only = KILLED["destroy of a volume that is mounted elsewhere"]
    assert at_every_change(life, life.destroy, gone(life, "destroy", "--yes"), only=only) == only


def test_no_call_that_changes_something_is_left_out() -> None:
    known = {f"{service}:{operation}" for service, operation in CHANGES | ADMINISTERS if changes(operation)}
    assert set().union(*KILLED.values()) == known
