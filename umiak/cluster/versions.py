"""Versions of Kubernetes, of the add-ons and of the nodes' image: what runs, what should, and how it is renewed.

A control plane goes up one minor version at a time; then its nodes follow, then the add-ons (EKS user guide, "Update existing
cluster to new Kubernetes version"). What to do next is read from EKS each time, so an interrupted upgrade is resumed by the
same command. CloudFormation changes control plane and nodes; add-ons and images are renewed through EKS itself, because their
versions come from AWS and not from cluster.yaml.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from umiak.cluster import live, waiting
from umiak.cluster.aws import Aws, AwsError
from umiak.errors import UmiakError
from umiak.spec.cluster import ClusterSpec, architecture

ADDONS = ("vpc-cni", "kube-proxy", "eks-pod-identity-agent", "coredns", "aws-efs-csi-driver")
# One add-on, and all nodes one after the other.
ADDON_SECONDS, NODES_SECONDS = 1200.0, 5400.0

Say = Callable[[str], None]


def path(now: str, wanted: str) -> list[str]:
    """The minor versions on the way, the last is `wanted`; empty when there is nowhere to go, or only back."""
    major, here = (int(part) for part in now.split("."))
    there_major, there = (int(part) for part in wanted.split("."))
    return [f"{major}.{minor}" for minor in range(here + 1, there + 1)] if there_major == major else []


def is_older(version: str, than: str) -> bool:
    return [int(part) for part in version.split(".")] < [int(part) for part in than.split(".")]


def control_plane(aws: Aws, spec: ClusterSpec) -> str:
    return str(aws.call("eks", "DescribeCluster", name=spec.name)["cluster"]["version"])


@dataclass(frozen=True)
class Addon:
    name: str
    installed: str
    # EKS's default for the control plane's version, and whether what is installed works with it.
    default: str
    fits: bool


def addons(aws: Aws, spec: ClusterSpec) -> list[Addon]:
    kubernetes = control_plane(aws, spec)
    return [found for name in ADDONS if (found := _addon(aws, spec, name, kubernetes))]


def _addon(aws: Aws, spec: ClusterSpec, name: str, kubernetes: str) -> Addon | None:
    try:
        installed = aws.call("eks", "DescribeAddon", clusterName=spec.name, addonName=name)["addon"]["addonVersion"]
    except AwsError as error:
        if error.code == "ResourceNotFoundException":
            return None
        raise
    answer = aws.pages("eks", "DescribeAddonVersions", "addons", addonName=name, kubernetesVersion=kubernetes)
    offered = {entry["addonVersion"]: entry for item in answer for entry in item["addonVersions"]}
    default = next((version for version, entry in offered.items() if _is_default(entry, kubernetes)), installed)
    return Addon(name, installed, default, installed in offered)


def _is_default(entry: dict[str, Any], kubernetes: str) -> bool:
    return any(c.get("clusterVersion") == kubernetes and c.get("defaultVersion") for c in entry["compatibilities"])


def renew_addons(aws: Aws, spec: ClusterSpec, say: Say, *, all_of_them: bool) -> bool:
    """To EKS's default; those that do not fit the control plane, or all. Whether there was anything to do."""
    behind = [a for a in addons(aws, spec) if a.installed != a.default and (all_of_them or not a.fits)]
    for addon in behind:
        say(f"add-on {addon.name}: {addon.installed} → {addon.default}")
        where = {"clusterName": spec.name, "addonName": addon.name}
        aws.call("eks", "UpdateAddon", **where, addonVersion=addon.default, resolveConflicts="OVERWRITE")
        _settle(
            lambda where=where: aws.call("eks", "DescribeAddon", **where)["addon"]["status"],  # type: ignore[misc]
            ADDON_SECONDS,
            f"the update of {addon.name}",
        )
    return bool(behind)


def newest_image(aws: Aws, spec: ClusterSpec, kubernetes: str) -> str:
    """The release of the nodes' image that AWS recommends for a version."""
    kind = architecture(spec.nodes.types[0])
    name = f"/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/{kind}/standard/recommended/release_version"
    answer = aws.call("ssm", "GetParameters", Names=[name])
    if not answer.get("Parameters"):
        raise UmiakError(f"AWS recommends no image for Kubernetes {kubernetes} on {kind} in {spec.region}")
    return str(answer["Parameters"][0]["Value"])


def renew_nodes(aws: Aws, spec: ClusterSpec, stack: str, say: Say) -> bool:
    """Nodes from the newest image of their own Kubernetes version, one at a time. Whether there was anything to do."""
    group = live.node_group(aws, spec, stack)
    live.refuse_unusable(spec, group)
    where = {"clusterName": spec.name, "nodegroupName": group.name}
    found = aws.call("eks", "DescribeNodegroup", **where)["nodegroup"]
    newest = newest_image(aws, spec, found["version"])
    if found["status"] == "ACTIVE" and found["releaseVersion"] == newest:
        return False
    if found["status"] == "ACTIVE":
        say(f"nodes: image {found['releaseVersion']} → {newest}; each node is drained, then replaced")
        aws.call("eks", "UpdateNodegroupVersion", **where, releaseVersion=newest)
    _settle(
        lambda: aws.call("eks", "DescribeNodegroup", **where)["nodegroup"]["status"], NODES_SECONDS, "the nodes' update"
    )
    return True


def _settle(status: Callable[[], str], limit: float, what: str) -> None:
    for _ in waiting.pauses(limit, what):
        now = status()
        if now == "ACTIVE":
            return
        if now not in ("UPDATING", "CREATING"):
            raise UmiakError(f"{what} ended as {now}; the AWS console says why (EKS, the cluster, its update history)")
    raise AssertionError("pauses end with an error")


def patch(aws: Aws, spec: ClusterSpec, stack: str, say: Say) -> bool:
    """Add-ons, then nodes. Whether there was anything to do."""
    renewed = renew_addons(aws, spec, say, all_of_them=True)
    return renew_nodes(aws, spec, stack, say) or renewed
