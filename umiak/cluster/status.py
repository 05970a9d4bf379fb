"""How a cluster is, in one look: the stack, the control plane, the nodes, the volume, and what all of it costs an hour."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from umiak.cluster import cost, inventory, stacks, states
from umiak.cluster.aws import Aws, AwsError
from umiak.cluster.display import tables
from umiak.cluster.prices import PriceBook
from umiak.spec.cluster import ClusterSpec


@dataclass(frozen=True)
class Group:
    name: str
    status: str
    wanted: int
    types: tuple[str, ...]
    # What EKS complains about.
    issues: tuple[str, ...] = ()


@dataclass(frozen=True)
class Status:
    name: str
    region: str
    # None when there is no stack.
    stack: str | None = None
    created: datetime | None = None
    # By status: how many resources.
    resources: dict[str, int] = field(default_factory=dict)
    # Why it failed, where it did: "Title: reason".
    failures: tuple[str, ...] = ()
    control_plane: str | None = None
    version: str | None = None
    endpoint: str | None = None
    groups: tuple[Group, ...] = ()
    nodes_running: int = 0
    volume: str | None = None
    mount_targets: dict[str, int] = field(default_factory=dict)
    bucket: str | None = None
    images: str | None = None
    per_hour: str | None = None

    @property
    def settled(self) -> bool:
        return self.stack is None or not states.at_work(self.stack)

    def to_dict(self) -> dict[str, Any]:
        plain = asdict(self)
        plain["created"] = self.created.isoformat() if self.created else None
        return plain


def look(aws: Aws, spec: ClusterSpec, book: PriceBook) -> Status:
    stack = stacks.find(aws, spec.name)
    stacks.refuse_foreign(spec, stack)
    if stack is None:
        return Status(spec.name, spec.region)
    described = {} if stack.status == "REVIEW_IN_PROGRESS" else stacks.resources(aws, stack.id)
    counts: dict[str, int] = {}
    for entry in described.values():
        counts[entry["ResourceStatus"]] = counts.get(entry["ResourceStatus"], 0) + 1
    failures = tuple(
        f"{title}: {entry.get('ResourceStatusReason', '')}"
        for title, entry in described.items()
        if entry["ResourceStatus"].endswith("_FAILED") and "cancelled" not in entry.get("ResourceStatusReason", "")
    )
    whole = stack.status in states.WHOLE
    cluster = _cluster(aws, spec)
    volume = spec.existing.volume or _physical(described, "Volume")
    return Status(
        name=spec.name,
        region=spec.region,
        stack=stack.status,
        created=stack.created,
        resources=dict(sorted(counts.items())),
        failures=failures,
        control_plane=cluster.get("status"),
        version=cluster.get("version"),
        endpoint=cluster.get("endpoint"),
        groups=_groups(aws, spec) if cluster else (),
        nodes_running=sum(item.kind == "node" for item in inventory.running_nodes(aws, spec)),
        volume=volume,
        mount_targets=_mounts(aws, volume) if volume else {},
        bucket=spec.existing.bucket or _physical(described, "Bucket"),
        images=stack.outputs.get("ImageRepository"),
        per_hour=_per_hour(aws, spec, book) if whole else None,
    )


def _physical(described: dict[str, dict[str, Any]], title: str) -> str | None:
    entry = described.get(title)
    there = entry is not None and entry["ResourceStatus"] in ("CREATE_COMPLETE", "UPDATE_COMPLETE")
    return entry["PhysicalResourceId"] if entry and there else None


def _cluster(aws: Aws, spec: ClusterSpec) -> dict[str, Any]:
    try:
        found: dict[str, Any] = aws.call("eks", "DescribeCluster", name=spec.name)["cluster"]
    except AwsError as error:
        if error.code == "ResourceNotFoundException":
            return {}
        raise
    return found


def _groups(aws: Aws, spec: ClusterSpec) -> tuple[Group, ...]:
    found = []
    for name in aws.call("eks", "ListNodegroups", clusterName=spec.name)["nodegroups"]:
        group = aws.call("eks", "DescribeNodegroup", clusterName=spec.name, nodegroupName=name)["nodegroup"]
        issues = tuple(issue.get("message", "") for issue in group.get("health", {}).get("issues", []))
        wanted = group["scalingConfig"]["desiredSize"]
        found.append(Group(name, group["status"], wanted, tuple(group["instanceTypes"]), issues))
    return tuple(found)


def _mounts(aws: Aws, volume: str) -> dict[str, int]:
    """By state: how many mount targets."""
    counts: dict[str, int] = {}
    for target in aws.call("efs", "DescribeMountTargets", FileSystemId=volume)["MountTargets"]:
        counts[target["LifeCycleState"]] = counts.get(target["LifeCycleState"], 0) + 1
    return counts


def _per_hour(aws: Aws, spec: ClusterSpec, book: PriceBook) -> str:
    lines = cost.actual(spec, book, inventory.metered(aws, spec))
    book.save()
    return tables.per_hour(lines)
