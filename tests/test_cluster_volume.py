"""Who gets at the shared volume: pods through one access point, with TLS and IAM, never as root; and volumes of umiak 0.1.0."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from moto.efs.models import efs_backends

from tests.cluster_life import REGION, Life, everything_goes, life
from tests.cluster_options import templates
from tests.fake_aws import FakeAws
from tests.fake_aws.operations import Break
from tests.fake_aws.people import ACCOUNT
from tests.test_cluster_ownership import OLD, data
from umiak.cluster import manifests, template
from umiak.kube.podspec import UID
from umiak.spec import yamlfile
from umiak.spec.cluster import ClusterSpec, Destroy

pytest_plugins = ("tests.fake_aws.fixtures",)
__all__ = ["life"]

EVERY = ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite", "elasticfilesystem:ClientRootAccess"]


def properties(built: dict[str, Any], title: str) -> dict[str, Any]:
    found: dict[str, Any] = built["Resources"][title]["Properties"]
    return found


def volumes(aws: FakeAws) -> dict[str, Any]:
    return dict(efs_backends[ACCOUNT][REGION].file_systems_by_id)


def keeping() -> ClusterSpec:
    return replace(everything_goes(), destroy=Destroy("keep", "delete", "delete", "keep"))


def test_volume_wants_tls_and_an_access_point_and_lets_nobody_be_root() -> None:
    for name, _, built in templates():
        policy = properties(built, "Volume")["FileSystemPolicy"]
        denied = {item["Sid"]: (item["Effect"], item["Action"], item.get("Condition")) for item in policy["Statement"]}
        assert denied == {
            "TlsOnly": ("Deny", EVERY, {"Bool": {"aws:SecureTransport": "false"}}),
            "AccessPointOnly": ("Deny", EVERY, {"Null": {"elasticfilesystem:AccessPointArn": "true"}}),
            "NobodyIsRoot": ("Deny", EVERY[2:], None),
        }, name


def test_nodes_may_mount_through_the_one_access_point_and_nothing_else_may() -> None:
    for name, _, built in templates():
        granted = [
            (title, statement)
            for title, body in built["Resources"].items()
            for policy in body.get("Properties", {}).get("Policies", [])
            for statement in policy["PolicyDocument"]["Statement"]
            if any("elasticfilesystem" in action for action in [*statement["Action"]])
        ]
        ((title, statement),) = granted
        assert title == "NodeRole", name
        assert statement["Action"] == EVERY[:2], name
        assert statement["Condition"] == {
            "StringEquals": {"elasticfilesystem:AccessPointArn": {"Fn::GetAtt": ["VolumeAccess", "Arn"]}}
        }, name


def test_pods_of_any_user_share_one_tree_as_the_image_s_user() -> None:
    for name, _, built in templates():
        access, user = properties(built, "VolumeAccess"), str(UID)
        assert access["PosixUser"] == {"Uid": user, "Gid": user}, name
        owner = {"OwnerUid": user, "OwnerGid": user, "Permissions": "0755"}
        assert access["RootDirectory"] == {"Path": "/umiak", "CreationInfo": owner}, name
        assert properties(built, "Volume")["ThroughputMode"] == "elastic", name


def test_new_cluster_has_the_policy_on_its_volume_and_a_claim_that_mounts_with_iam(life: Life) -> None:
    assert life.up() == 0, life.output
    (volume,) = volumes(life.aws).values()
    assert "NobodyIsRoot" in json.dumps(volume.file_system_policy)
    (claim,) = [body for path, body in life.aws.kubernetes.objects.items() if "/persistentvolumes/" in path]
    assert claim["spec"]["mountOptions"] == ["tls", "iam"]
    assert life.destroy() == 0, life.output
    life.assert_nothing_left()


@pytest.mark.parametrize("midway", [True, False])
def test_volume_whose_creation_fails_is_cleaned_up(life: Life, midway: bool) -> None:
    life.aws.stacks.operations.breaks["Volume"] = Break("Internal Failure", 1, midway)
    assert life.up() == 1
    assert life.up() == 0, life.output
    assert life.destroy() == 0, life.output
    life.assert_nothing_left()


def test_cluster_of_umiak_0_1_0_keeps_its_volume_as_its_pods_use_it(life: Life) -> None:
    """With a policy, pods that run now would be cut off; with another access point, their files would be gone."""
    assert life.aws.deploy("paddle", OLD.read_text()) == "CREATE_COMPLETE"
    before = life.aws.client("efs").describe_access_points()["AccessPoints"]
    life.write(keeping())
    assert life.up() == 0, life.output
    assert "made by umiak 0.1.0" in life.output
    assert life.aws.client("efs").describe_access_points()["AccessPoints"] == before
    (claim,) = [body for path, body in life.aws.kubernetes.objects.items() if "/persistentvolumes/" in path]
    assert "mountOptions" not in claim["spec"]
    assert life.run("diff") == 0
    assert "matches cluster.yaml" in life.output


def test_volume_of_umiak_0_1_0_is_used_again_as_root_behind_the_policy(life: Life) -> None:
    assert life.aws.deploy("paddle", OLD.read_text()) == "CREATE_COMPLETE"
    life.write(keeping())
    assert life.destroy() == 0, life.output
    life.aws.clock.advance(600)
    (name,) = volumes(life.aws)
    assert life.run("up", "--yes", "--reuse") == 0, life.output
    written = yamlfile.load(life.directory / "cluster.yaml", ClusterSpec)
    assert (written.existing.volume, written.existing.written_as_root) == (name, True)
    (access,) = life.aws.client("efs").describe_access_points()["AccessPoints"]
    assert (access["PosixUser"]["Uid"], access["RootDirectory"]["Path"]) == (0, "/")
    policy = json.dumps(volumes(life.aws)[name].file_system_policy)
    assert "TlsOnly" in policy
    assert "NobodyIsRoot" not in policy
    assert life.up() == 0
    assert "matches cluster.yaml" in life.output
    assert life.destroy() == 0, life.output
    assert name in data(life.aws)


def test_volume_of_this_version_is_used_again_as_the_image_s_user(life: Life) -> None:
    life.write(keeping())
    assert life.up() == 0, life.output
    assert life.destroy() == 0, life.output
    life.aws.clock.advance(600)
    assert life.run("up", "--yes", "--reuse") == 0, life.output
    (access,) = life.aws.client("efs").describe_access_points()["AccessPoints"]
    assert access["PosixUser"]["Uid"] == UID


def test_only_a_volume_without_a_policy_counts_as_old() -> None:
    assert template.has_old_volume(yamlfile.yaml.safe_load(OLD.read_text()))
    assert not template.has_old_volume(template.build(everything_goes()))
    assert "mountOptions" not in manifests.build("fs-1::fsap-1", old_volume=True)[0]["spec"]
