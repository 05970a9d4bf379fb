"""The boundary of the roles through the life of a cluster: who makes it, who is told to have it made, and when it goes."""

from __future__ import annotations

import json
from dataclasses import replace

from moto.iam.models import iam_backends

from tests.cluster_life import Life, everything_goes, life
from tests.fake_aws.front import LOST, LOST_AFTER
from tests.fake_aws.people import ACCOUNT, Person
from tests.test_cluster_ownership import data, keeping
from tests.test_cluster_versions import at, running, whole
from umiak.cluster import boundary, policy, template
from umiak.spec.cluster import ClusterSpec
from umiak.spec.yamlfile import to_yaml

pytest_plugins = ("tests.fake_aws.fixtures",)
__all__ = ["life"]


def deployer(life: Life, spec: ClusterSpec) -> Person:
    """Somebody who holds the printed policies and nothing else, from now on."""
    built = policy.documents(spec, template.types(template.build(spec)))
    person = life.aws.people.user("Deployer", *(json.loads(policy.text(items)) for items in built.values()))
    for name, value in person.environment.items():
        life.patch.setenv(name, value)
    return person


def test_who_holds_only_the_printed_policies_is_told_of_the_boundary_and_then_goes_all_the_way(life: Life) -> None:
    deployer(life, everything_goes())
    assert life.up() == 2
    assert "not allowed to do iam:CreatePolicy; nothing was created" in life.output
    assert "aws iam create-policy --policy-name paddle-us-west-2-boundary" in life.output
    life.assert_nothing_left()
    life.aws.client("iam").create_policy(
        PolicyName="paddle-us-west-2-boundary", PolicyDocument=boundary.text(everything_goes())
    )
    assert life.up() == 0, life.output
    life.assert_up()
    base = everything_goes()
    life.write(replace(base, nodes=replace(base.nodes, count=1)))
    assert life.up() == 0, life.output
    assert life.destroy() == 0, life.output
    assert "kept: policy paddle-us-west-2-boundary, which an administrator made" in life.output
    assert life.aws.client("iam").get_policy(PolicyArn=f"arn:aws:iam::{ACCOUNT}:policy/paddle-us-west-2-boundary")
    life.assert_nothing_left()


def bound(life: Life, spec: ClusterSpec) -> None:
    """What an administrator does once; from then on somebody with the printed policies does the rest."""
    life.aws.client("iam").create_policy(PolicyName="paddle-us-west-2-boundary", PolicyDocument=boundary.text(spec))
    deployer(life, spec)
    life.write(spec)


def test_with_only_the_printed_policies_a_cluster_is_upgraded_and_patched_and_guardduty_s_things_go_with_it(
    life: Life,
) -> None:
    bound(life, at("1.36"))
    assert life.up() == 0, life.output
    life.write(at("1.37"))
    assert life.up() == 0, life.output
    assert running(life.aws) == whole("1.37")
    life.aws.eks.build = 2
    assert life.run("patch", "--yes") == 0, life.output
    assert running(life.aws) == whole("1.37", 2)
    life.aws.guardduty.inject()
    assert life.destroy() == 0, life.output
    assert {("ec2", "DeleteVpcEndpoints"), ("ec2", "DeleteSecurityGroup")} <= life.aws.asked()
    life.assert_nothing_left()


def test_with_only_the_printed_policies_kept_data_is_used_again_and_survives(life: Life) -> None:
    bound(life, keeping())
    assert life.up() == 0, life.output
    assert life.destroy() == 0, life.output
    life.aws.clock.advance(600)
    kept = data(life.aws)
    assert len(kept) == 4
    life.write(everything_goes())
    assert life.run("up", "--yes", "--reuse") == 0, life.output
    life.assert_up()
    assert data(life.aws) == kept
    assert ("efs", "PutFileSystemPolicy") in life.aws.asked()
    assert life.destroy() == 0, life.output
    assert data(life.aws) == kept


def test_boundary_survives_a_kill_and_a_lost_answer_and_goes_with_the_cluster(life: Life) -> None:
    life.aws.fail("iam", "CreatePolicy", LOST_AFTER, 1)
    assert life.up() == 0, life.output
    assert "created policy paddle-us-west-2-boundary" in life.output
    for role in iam_backends[ACCOUNT]["aws"].roles.values():
        assert role.permissions_boundary_arn.endswith(":policy/paddle-us-west-2-boundary")
    life.aws.fail("iam", "DeletePolicy", LOST, 100)
    assert life.destroy() == 75
    life.aws.faults.clear()
    assert life.destroy() == 0, life.output
    assert "removed policy paddle-us-west-2-boundary" in life.output
    life.assert_nothing_left()


def test_roles_of_a_cluster_made_without_a_boundary_get_it(life: Life) -> None:
    old = template.build(everything_goes())
    for resource in old["Resources"].values():
        resource["Properties"].pop("PermissionsBoundary", None)
    assert life.aws.deploy("paddle", to_yaml(old)) == "CREATE_COMPLETE"
    assert life.up() == 0, life.output
    assert all(role.permissions_boundary_arn for role in iam_backends[ACCOUNT]["aws"].roles.values())
