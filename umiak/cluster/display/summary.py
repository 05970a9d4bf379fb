"""A cluster in words, for the person who will pay for it or has to approve it. What CloudFormation gets is the template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from umiak.cluster import boundary, fates
from umiak.cluster.policy import Statement
from umiak.cluster.template.kubernetes import DATA_ACCOUNT, DATA_NAMESPACE, LOG_DAYS
from umiak.cluster.template.network import subnets
from umiak.cluster.template.roles import boundary_name
from umiak.spec.cluster import TAG, ClusterSpec, architecture

# How the files beside the summary are called.
TEMPLATE = "template.yaml"
MANIFESTS = "kubernetes.yaml"


def policy_file(name: str) -> str:
    return f"policy-{name}.json"


def text(
    spec: ClusterSpec,
    built: Mapping[str, Any],
    policies: Mapping[str, tuple[Statement, ...]],
) -> str:
    types = Counter(resource["Type"] for resource in built["Resources"].values())
    parts = [
        f"# Cluster {spec.name} in {spec.region}",
        "Made by `umiak cluster render` from cluster.yaml. Nothing has been created.",
        "## What it is",
        _table(("what", "value"), _facts(spec)),
        "## Network",
        _table(("zone", "private subnet", "public subnet", "use"), _zones(spec)),
        "## What CloudFormation will make",
        _table(("type", "how many"), [(kind, str(count)) for kind, count in sorted(types.items())]),
        "## What stays when it is destroyed",
        _table(("what", "on destroy"), _fates(spec)),
        "## Deploying it by hand",
        _by_hand(spec),
        "## Policies",
        "`policy-use.json` is for daily work with a cluster that exists: push the image, upload data to the bucket, write a "
        "kubeconfig. It lets nobody into Kubernetes: there the administrator above decides, by access entries of EKS. "
        "`policy-plan.json` is enough to validate, price and watch. Who creates and removes the stack needs the three "
        "`policy-deploy-…` as well; an administrator who does that by hand can keep them.",
        f"An administrator first creates the policy `{boundary_name(spec.name, spec.region)}` from `{boundary.FILE}`. It is the "
        "permissions boundary of every role of the cluster: the most that any of them can do, whatever is attached to it. The "
        "deploy policies allow roles only with it, and forbid to change it.",
        "Wildcards and their reasons:",
        _table(("statement", "why"), _reasons(spec, built, policies)),
    ]
    return "\n\n".join(parts) + "\n"


def _facts(spec: ClusterSpec) -> list[tuple[str, str]]:
    nodes, cidrs = spec.nodes, spec.kubernetes.api_cidrs
    ways = {
        "single": "through one NAT gateway",
        "per-zone": "through a NAT gateway in each zone",
        "none": "by their own public addresses; nothing is let in",
    }
    return [
        ("Kubernetes", f"EKS {spec.kubernetes.version}, standard support"),
        (
            "nodes",
            f"{nodes.count} × {' or '.join(nodes.types)} ({architecture(nodes.types[0])}, "
            f"{'spot' if nodes.spot else 'on-demand'}), {nodes.disk_gb} GiB each",
        ),
        ("SSH", f"key {nodes.key_name}, from {spec.network.cidr}" if nodes.key_name else "none"),
        ("API server", f"from the VPC and {', '.join(cidrs)}" if cidrs else "from the VPC only"),
        ("way in", "`umiak cluster connect`, through AWS Systems Manager" if spec.kubernetes.bastion else "none"),
        ("administrator", spec.kubernetes.admin_arn or "the stack's parameter AdminArn"),
        ("nodes reach the internet", ways[spec.network.nat]),
        ("key", spec.kms_key_arn or "made here; for Kubernetes secrets, EFS, S3 and logs"),
        ("logs", f"all five of the control plane's, kept {LOG_DAYS} days"),
        ("bucket access", f"pods of service account {DATA_ACCOUNT} in namespace {DATA_NAMESPACE} read it"),
        ("our tag", f"`{TAG} = {spec.name}` on everything that can have one"),
    ]


def _zones(spec: ClusterSpec) -> list[tuple[str, ...]]:
    private, public = subnets(spec.network.cidr, len(spec.zones))
    use = ["all nodes"] + ["EKS requires a second zone"] * (len(spec.zones) - 1)
    return list(zip(spec.zones, private, public, use, strict=True))


def _fates(spec: ClusterSpec) -> list[tuple[str, str]]:
    return [*((entry.words, _fate(spec, entry)) for entry in fates.DATA), ("everything else", "delete")]


def _fate(spec: ClusterSpec, entry: fates.Data) -> str:
    existing = entry.existing(spec)
    if not existing:
        return entry.fate(spec)
    return "not ours, not touched" if existing == spec.kms_key_arn else f"{existing}: not touched"


def _by_hand(spec: ClusterSpec) -> str:
    where = f"--region {spec.region} --stack-name {spec.name}"
    admin = spec.kubernetes.admin_arn or "arn:aws:iam::123456789012:role/…"
    return f"""```sh
{boundary.command(spec)}
aws cloudformation deploy {where} --template-file {TEMPLATE} \\
  --capabilities CAPABILITY_NAMED_IAM --parameter-overrides AdminArn={admin}
aws eks update-kubeconfig --region {spec.region} --name {spec.name}
export VolumeHandle=$(aws cloudformation describe-stacks {where} \\
  --query "Stacks[0].Outputs[?OutputKey=='VolumeHandle'].OutputValue" --output text)
envsubst < {MANIFESTS} | kubectl apply -f -
```"""


def _reasons(
    spec: ClusterSpec, built: Mapping[str, Any], policies: Mapping[str, tuple[Statement, ...]]
) -> list[tuple[str, str]]:
    ours = [
        (f"{policy_file(name)}: {item.sid}", item.reason)
        for name, items in [*policies.items(), ("boundary", boundary.statements(spec))]
        for item in items
        if item.reason
    ]
    theirs = [
        (f"{TEMPLATE}: {title}, {sid}", why)
        for title, resource in built["Resources"].items()
        for sid, why in resource.get("Metadata", {}).get("Wildcards", {}).items()
    ]
    return ours + theirs


def _table(head: tuple[str, ...], rows: list[Any]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
