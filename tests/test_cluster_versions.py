"""Kubernetes goes up one minor version at a time, nodes and add-ons with it; `patch` renews within a version."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from tests.cluster_life import Life, everything_goes, life
from tests.fake_aws import FakeAws
from tests.test_cluster_ownership import OLD
from umiak.cluster import stacks, template, versions
from umiak.cluster.aws import Aws
from umiak.cluster.checks import offline, placement
from umiak.cluster.checks.finding import Caller, Context
from umiak.spec.cluster import ClusterSpec

pytest_plugins = ("tests.fake_aws.fixtures",)
__all__ = ["life"]


def at(version: str) -> ClusterSpec:
    base = everything_goes()
    return replace(base, kubernetes=replace(base.kubernetes, version=version))


def deployed(life: Life) -> None:
    life.write(at("1.35"))
    assert life.aws.deploy("paddle", template.text(at("1.35"))) == "CREATE_COMPLETE"


def running(aws: FakeAws) -> tuple[str, set[str], set[str]]:
    """Versions of (control plane, nodes, add-ons)."""
    return (
        aws.eks.clusters["paddle"]["version"],
        {group["version"] for group in aws.eks.node_groups.values()},
        {addon["addonVersion"] for addon in aws.eks.addons.values()},
    )


def whole(version: str, build: int = 1) -> tuple[str, set[str], set[str]]:
    return version, {version}, {f"v{version}.0-eksbuild.{build}"}


def test_way_up_has_every_minor_version_and_no_way_back() -> None:
    assert versions.path("1.35", "1.37") == ["1.36", "1.37"]
    assert versions.path("1.35", "1.35") == versions.path("1.36", "1.35") == []


def test_two_minors_up_control_plane_then_nodes_then_addons_at_each(life: Life) -> None:
    deployed(life)
    machines = {item["InstanceId"] for item in life.aws.eks.instances("paddle")}
    life.write(at("1.37"))
    assert life.up() == 0, life.output
    assert running(life.aws) == whole("1.37")
    assert "Kubernetes 1.35 → 1.36 → 1.37" in life.output
    assert not machines & {item["InstanceId"] for item in life.aws.eks.instances("paddle")}, "nodes of the old version"
    names = ("UpdateClusterVersion", "UpdateNodegroupVersion", "UpdateAddon")
    text = life.output
    assert text.index("Nodes") < text.index("add-on kube-proxy: v1.35.0-eksbuild.1 → v1.36.0-eksbuild.1")
    assert text.count("add-on kube-proxy") == 2
    assert {call.operation for call in life.aws.journal if call.operation in names} == {"UpdateAddon"}, (
        "the rest by stack"
    )
    assert life.destroy() == 0, life.output
    life.assert_nothing_left()


def test_cluster_of_umiak_0_1_0_is_upgraded(life: Life) -> None:
    assert life.aws.deploy("paddle", OLD.read_text()) == "CREATE_COMPLETE"
    life.write(replace(at("1.36"), destroy=ClusterSpec("x", "us-west-2", ()).destroy))
    assert life.up() == 0, life.output
    assert running(life.aws) == whole("1.36")


def test_control_plane_that_aws_upgraded_can_still_be_scaled(life: Life) -> None:
    deployed(life)
    life.aws.eks.clusters["paddle"]["version"] = "1.36"
    base = at("1.35")
    life.write(replace(base, nodes=replace(base.nodes, count=1)))
    assert life.up() == 0, life.output
    assert 'write kubernetes.version: "1.36"' in life.output
    life.assert_up(nodes=1)


def test_patch_renews_addons_and_image_and_then_finds_nothing(life: Life) -> None:
    deployed(life)
    life.aws.eks.build = 2
    assert life.run("patch", "--yes") == 0, life.output
    assert "add-on coredns: v1.35.0-eksbuild.1 → v1.35.0-eksbuild.2" in life.output
    assert "image 1.35.0-20261101 → 1.35.0-20261102" in life.output
    assert running(life.aws) == whole("1.35", 2)
    assert {group["releaseVersion"] for group in life.aws.eks.node_groups.values()} == {"1.35.0-20261102"}
    assert life.run("patch", "--yes") == 0
    assert "nothing to renew" in life.output
    assert life.up() == 0
    assert "matches cluster.yaml" in life.output, "a patch is no difference to cluster.yaml"


def test_patch_of_nothing_says_what_comes_first(life: Life) -> None:
    assert life.run("patch", "--yes") == 2
    assert "`umiak cluster up` comes first" in life.output


def test_old_version_stops_a_new_cluster_and_only_warns_an_existing_one(life: Life) -> None:
    late = date(2027, 4, 1)
    aws, caller = Aws("us-west-2"), Caller("123456789012", "arn", None)
    new = Context(at("1.35"), aws, caller, stacks.find(aws, "paddle"), late)
    assert [item.level for item in placement.kubernetes_version(new)] == ["error", "info"]
    deployed(life)
    old = Context(at("1.35"), aws, caller, stacks.find(aws, "paddle"), late)
    assert [item.level for item in placement.kubernetes_version(old)] == ["warning", "info"]


def test_default_is_the_newest_version_that_is_known_here() -> None:
    newest = max(offline.STANDARD_SUPPORT_ENDS, key=lambda name: int(name.partition(".")[2]))
    assert ClusterSpec("paddle", "us-west-2", ()).kubernetes.version == newest
