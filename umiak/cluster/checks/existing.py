"""What is there already: a stack or its parts under the cluster's name, and networks that would clash."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from umiak.cluster.aws import Aws, AwsError
from umiak.cluster.checks.finding import Context, Finding
from umiak.cluster.template.roles import JOBS, role_name
from umiak.cluster.template.storage import log_group_name
from umiak.spec.cluster import TAG, ClusterSpec

# Statuses that `up` gets over by itself → what it does.
_MENDED = {
    "REVIEW_IN_PROGRESS": "it holds only a plan that was never carried out; `umiak cluster up` makes a new one",
    "CREATE_FAILED": "its creation failed; `umiak cluster up` removes what is left and begins again",
    "ROLLBACK_COMPLETE": "its creation failed; `umiak cluster up` removes what is left and begins again",
    "ROLLBACK_FAILED": "its creation failed; `umiak cluster up` removes what is left and begins again",
    "DELETE_FAILED": "its removal is not finished; `umiak cluster destroy` resumes it",
}


def zero_nodes(spec: ClusterSpec, exists: bool | None) -> list[Finding]:
    """No nodes is a pause for a cluster that exists, and a failure for one that does not: its add-ons wait for a node."""
    if spec.nodes.count > 0:
        return []
    if exists:
        return [Finding("info", "nodes", "no nodes: the cluster pauses; the control plane is still paid for")]
    return [
        Finding(
            "warning" if exists is None else "error",
            "nodes",
            "a cluster cannot be created without nodes: coredns and the EFS driver would wait until CloudFormation gives up",
            "write at least 1 for nodes.count; 0 is for a pause later",
        )
    ]


def name(context: Context) -> list[Finding]:
    spec, found = context.spec, context.stack
    if found is None:
        return _leftovers(context) or [Finding("info", "name", f"{spec.name} is free")]
    if not found.ours:
        return [
            Finding(
                "error",
                "name",
                f"a stack named {spec.name} exists ({found.status}) and is not an umiak cluster; it will not be touched",
                "choose another name, or remove that stack",
            )
        ]
    if found.status in _MENDED:
        return [Finding("warning", "name", f"the stack {spec.name} is ours and {found.status}", _MENDED[found.status])]
    if found.status.endswith("_IN_PROGRESS"):
        return [
            Finding("warning", "name", f"the stack {spec.name} is changing ({found.status})", "wait until it is done")
        ]
    return [Finding("info", "name", f"the cluster exists already ({found.status})")]


def _leftovers(context: Context) -> list[Finding]:
    aws, spec = context.aws, context.spec
    found = []
    if _there(lambda: aws.call("eks", "DescribeCluster", name=spec.name), "ResourceNotFoundException"):
        found.append(
            Finding(
                "error",
                "name",
                f"an EKS cluster named {spec.name} exists in {spec.region}, made by something else",
                "choose another name",
            )
        )
    group = log_group_name(spec.name)
    groups = aws.pages("logs", "DescribeLogGroups", "logGroups", logGroupNamePrefix=group)
    if any(entry["logGroupName"] == group for entry in groups):
        found.append(
            Finding(
                "error",
                "name",
                f"the log group {group} is left from an earlier cluster, and CloudFormation cannot make it again",
                f"remove it: aws logs delete-log-group --region {spec.region} --log-group-name {group}",
            )
        )
    for job in JOBS:
        found += _left_role(aws, role_name(spec.name, spec.region, job))
    return found


def _left_role(aws: Aws, role: str) -> list[Finding]:
    if not _there(lambda: aws.call("iam", "GetRole", RoleName=role), "NoSuchEntity"):
        return []
    text = f"the IAM role {role} exists, and CloudFormation cannot make it again"
    return [Finding("error", "name", text, "choose another name, or remove that role")]


def _there(ask: Callable[[], object], missing: str) -> bool:
    try:
        ask()
    except AwsError as error:
        if error.code == missing:
            return False
        raise
    return True


def network(context: Context) -> list[Finding]:
    ours = ipaddress.IPv4Network(context.spec.network.cidr)
    found = []
    for vpc in context.aws.pages("ec2", "DescribeVpcs", "Vpcs"):
        tags = {tag["Key"]: tag["Value"] for tag in vpc.get("Tags", [])}
        if tags.get(TAG) == context.spec.name:
            continue
        clashing = [
            block["CidrBlock"]
            for block in vpc.get("CidrBlockAssociationSet", [])
            if ours.overlaps(ipaddress.IPv4Network(block["CidrBlock"]))
        ]
        if clashing:
            found.append(
                Finding(
                    "warning",
                    "network",
                    f"{ours} overlaps {clashing[0]} of {tags.get('Name') or vpc['VpcId']}: the two can never be connected",
                    "choose another range for network.cidr",
                )
            )
    return found or [Finding("info", "network", f"{ours} is free of other VPCs of this account and region")]
