"""The node group as it is now. A stack's template does not show what was done to it since, by hand or by half a destroy."""

from __future__ import annotations

from dataclasses import dataclass

from umiak.cluster import stacks
from umiak.cluster.aws import Aws, AwsError
from umiak.errors import InputError
from umiak.spec.cluster import ClusterSpec

# EKS works on it, and it becomes active again by itself.
_BUSY = {"CREATING", "UPDATING"}


@dataclass(frozen=True)
class NodeGroup:
    """`status` is EKS's own word, or GONE when there is no such group any more."""

    name: str
    status: str
    wanted: int = 0
    # What EKS complains about.
    issues: tuple[str, ...] = ()


def node_group(aws: Aws, spec: ClusterSpec, stack: str) -> NodeGroup:
    """The one that the stack made."""
    made = stacks.resources(aws, stack).get("Nodes", {}).get("PhysicalResourceId", "")
    name = made.rpartition("/")[2]
    try:
        found = aws.call("eks", "DescribeNodegroup", clusterName=spec.name, nodegroupName=name)["nodegroup"]
    except AwsError as error:
        if error.code == "ResourceNotFoundException":
            return NodeGroup(name, "GONE")
        raise
    issues = tuple(issue.get("message", "") for issue in found.get("health", {}).get("issues", []))
    return NodeGroup(name, found["status"], found["scalingConfig"]["desiredSize"], issues)


def refuse_unusable(spec: ClusterSpec, group: NodeGroup) -> None:
    """Where no amount of waiting brings the nodes."""
    if complaint := trouble(spec, group):
        raise InputError(complaint)


def trouble(spec: ClusterSpec, group: NodeGroup) -> str | None:
    """What keeps the nodes of cluster.yaml from ever coming, and what to do; None when they can come."""
    if group.status in ("GONE", "DELETING", "DELETE_FAILED"):
        state = "gone" if group.status == "GONE" else group.status
        return (
            f"the stack {spec.name} is complete, but its node group {group.name} is {state}: a destroy has begun, or somebody "
            "removed it, and CloudFormation cannot make it again. Run `umiak cluster destroy`, which keeps what cluster.yaml "
            "says to keep, then `umiak cluster up`"
        )
    if group.status not in _BUSY and group.wanted < spec.nodes.count:
        return (
            f"cluster.yaml says {spec.nodes.count} nodes, and so does the stack, but the node group {group.name} was told to "
            f"have {group.wanted} by something else. Set it right: aws eks update-nodegroup-config --region {spec.region} "
            f"--cluster-name {spec.name} --nodegroup-name {group.name} --scaling-config "
            f"minSize=0,desiredSize={spec.nodes.count},maxSize={spec.nodes.count}; then run this again"
        )
    return None
