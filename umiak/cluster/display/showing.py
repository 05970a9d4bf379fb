"""How `up`, `diff`, `status` and `destroy` print: plain text. Decides nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from umiak.cluster.cost import Line
from umiak.cluster.difference import Change
from umiak.cluster.display.tables import per_hour
from umiak.cluster.fates import Remains
from umiak.cluster.reuse import Kept
from umiak.cluster.stacks import Stack
from umiak.cluster.status import Status
from umiak.spec.cluster import ClusterSpec

LONGEST = 60
_SIGNS = {"add": "+", "change": "~", "remove": "-"}


def plan(spec: ClusterSpec, resources: int, lines: Sequence[Line]) -> str:
    nodes = spec.nodes
    kind = "spot" if nodes.spot else "on-demand"
    cidrs = ", ".join(spec.kubernetes.api_cidrs) or "the VPC only"
    cidrs += ", and through `umiak cluster connect`" if spec.kubernetes.bastion else ""
    rows = [
        ("cluster", f"{spec.name} in {spec.region}, {resources} resources, Kubernetes {spec.kubernetes.version}"),
        ("nodes", f"{nodes.count} × {' or '.join(nodes.types)}, {kind}, in {spec.zones[0]}"),
        ("API server", f"reached from {cidrs}"),
        ("costs", f"{per_hour(lines)}, and what is stored and sent (`umiak cluster cost` shows each line)"),
    ]
    return "\n".join(f"{title:<11} {text}" for title, text in rows)


def changes(found: Sequence[Change]) -> str:
    lines = []
    for change in found:
        anew = "  (replaced by a new one)" if change.replaced else ""
        lines.append(f"{_SIGNS[change.action]} {change.title} {change.kind.removeprefix('AWS::')}{anew}")
        lines += [f"    {where}: {_short(old)} → {_short(new)}" for where, old, new in change.details]
    return "\n".join(lines)


def _short(value: Any) -> str:
    text = "nothing" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def next_steps(spec: ClusterSpec, outputs: dict[str, str]) -> str:
    repository = outputs["ImageRepository"]
    return "\n".join(
        [
            "",
            f"cluster {spec.name} is up. Make the training image and push it to {repository}:latest:",
            "  umiak image push",
            f"bucket for data: s3://{outputs['Bucket']}",
            "next, in this directory: umiak job init",
            *(["then: umiak cluster connect -- umiak job submit --watch"] if spec.kubernetes.bastion else []),
        ]
    )


def kept(spec: ClusterSpec, found: Kept) -> str:
    head = f"an earlier {spec.name} kept this, and it is still paid for:"
    return "\n".join([head, *(f"  {thing}" for thing in found.things)])


def reuse_lines(spec: ClusterSpec) -> str:
    """What cluster.yaml must say to use what was kept."""
    lines = [f"kms_key_arn: {spec.kms_key_arn}", "existing:"]
    return "\n".join(lines + [f"  {name}: {value}" for name, value in vars(spec.existing).items() if value])


def status(found: Status) -> str:
    if found.stack is None:
        return f"cluster {found.name} in {found.region}: not created"
    since = f", made {found.created:%Y-%m-%d %H:%M} UTC" if found.created else ""
    rows = [
        ("stack", found.stack + since),
        ("resources", ", ".join(f"{n} {word}" for word, n in found.resources.items())),
    ]
    rows += [("failed", text) for text in found.failures]
    if found.control_plane:
        rows.append(("control plane", f"{found.control_plane}, Kubernetes {found.version}, {found.endpoint}"))
    for group in found.groups:
        kinds = " or ".join(group.types)
        rows.append(("nodes", f"{found.nodes_running} of {group.wanted} run, {kinds}, group {group.status}"))
        rows += [("", issue) for issue in group.issues]
    if found.volume:
        mounts = ", ".join(f"{count} mount targets {state}" for state, count in found.mount_targets.items())
        rows.append(("volume", f"{found.volume}, {mounts}"))
    rows += [(title, value) for title, value in (("bucket", found.bucket), ("images", found.images)) if value]
    if found.per_hour:
        rows.append(("costs", found.per_hour))
    head = f"cluster {found.name} in {found.region}"
    return "\n".join([head, *(f"  {title:<14} {text}" for title, text in rows)])


def announcement(spec: ClusterSpec, stack: Stack | None, there: Remains) -> str:
    """What `destroy` is about to do."""
    lines = [f"cluster {spec.name} in {spec.region}: stack {stack.status if stack else 'gone already'}"]
    lines += [f"  will be removed: {thing}" for thing in there.left if thing.billed]
    lines += [f"  will be kept:    {thing}" for thing in there.kept]
    lines += [f"  not touched:     {thing}, kept by an earlier {spec.name}" for thing in there.earlier]
    return "\n".join(lines)


def remains(spec: ClusterSpec, found: Remains) -> str:
    lines = []
    if found.kept:
        lines.append("kept, as cluster.yaml says, and still paid for:")
        lines += [f"  {thing}" for thing in found.kept]
    if found.earlier:
        lines.append(
            f"not touched and still paid for: kept by an earlier {spec.name} (`destroy --earlier` removes it too):"
        )
        lines += [f"  {thing}" for thing in found.earlier]
    if found.left:
        lines.append("still there, though it should be gone:")
        lines += [f"  {thing}{'' if thing.billed else ', not billed'}" for thing in found.left]
        lines.append("run `umiak cluster destroy` again; if it stays, remove it in the AWS console")
    else:
        lines.append(f"nothing else of {spec.name} is left in {spec.region}")
    return "\n".join(lines)
