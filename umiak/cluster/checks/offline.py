"""Checks that need nobody's answer: cluster.yaml against what is known of AWS here."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import date, timedelta

from umiak.cluster import policy, template
from umiak.cluster.checks.finding import Finding
from umiak.spec.cluster import ClusterSpec

# When a version leaves standard support. 1.35 and 1.36: AWS's calendar (EKS user guide, "Kubernetes release calendar"), as
# endoflife.date had copied it on 2026-08-22 (products/amazon-eks.md, commit a70eca3). 1.37: AWS announced it on 2026-10-02
# (aws.amazon.com/about-aws/whats-new/2026/10/amazon-eks-distro-kubernetes-version-1-37); its date is the calendar's rule, 14
# months later, because no copy of the calendar with that row was found. The newest is the default of cluster.yaml;
# `validate` asks AWS.
STANDARD_SUPPORT_ENDS = {"1.35": date(2027, 3, 27), "1.36": date(2027, 8, 2), "1.37": date(2027, 12, 2)}
SOON = timedelta(days=60)
# Where many tools put their own bridges; a VPC there cannot reach them, nor they it.
BRIDGES = ipaddress.IPv4Network("172.17.0.0/16")


def check(spec: ClusterSpec) -> list[Finding]:
    return [*_api_server(spec), *_nodes(spec), *_network(spec), *_sizes(spec)]


def kubernetes_version(spec: ClusterSpec, today: date) -> list[Finding]:
    """By the dates known here; AWS, asked, knows better."""
    version = spec.kubernetes.version
    ends = STANDARD_SUPPORT_ENDS.get(version)
    if ends is None:
        return [Finding("info", "kubernetes", f"{version} is newer than this umiak; AWS was not asked about it")]
    return [support(version, ends, today)]


def support(version: str, ends: date, today: date, exists: bool = False) -> Finding:
    """How long a version is in standard support; used with the dates known here and with those AWS gives.

    A cluster that exists must be able to scale down or be changed whatever its age.
    """
    if ends < today:
        return Finding(
            "warning" if exists else "error",
            "kubernetes",
            f"{version} left standard support on {ends}; AWS would charge for extended support or upgrade it on its own",
            "write a newer kubernetes.version",
        )
    if ends - today < SOON:
        return Finding(
            "warning",
            "kubernetes",
            f"{version} leaves standard support on {ends}; AWS then upgrades the cluster on its own",
            "write a newer kubernetes.version",
        )
    return Finding("info", "kubernetes", f"{version} is in standard support until {ends}")


def _api_server(spec: ClusterSpec) -> Iterator[Finding]:
    if not spec.kubernetes.api_cidrs and not spec.kubernetes.bastion:
        yield Finding(
            "warning",
            "api server",
            "it will answer only inside the VPC: `umiak cluster up` could make the cluster but not finish here, and kubectl and "
            "`umiak job` on this machine could not reach it",
            "choose who can reach it: `umiak cluster up --api-access mine` (this machine), private (with `umiak cluster "
            "connect`) or CIDR,…; or work from a machine in the VPC",
        )
    if any(ipaddress.IPv4Network(cidr).prefixlen < 8 for cidr in spec.kubernetes.api_cidrs):
        yield Finding(
            "warning",
            "api server",
            f"it will answer to {', '.join(spec.kubernetes.api_cidrs)}, which is nearly everybody (they still need credentials)",
            "limit kubernetes.api_cidrs to your own addresses",
        )


def _nodes(spec: ClusterSpec) -> Iterator[Finding]:
    nodes = spec.nodes
    if nodes.spot and len(nodes.types) == 1:
        yield Finding(
            "warning",
            "nodes",
            f"spot with only {nodes.types[0]}: when AWS wants that type back, all nodes go at once",
            "write several types of one size in nodes.types, like [m6i.large, m5.large, m6a.large, m5a.large]",
        )
    if nodes.key_name and spec.network.nat == "none":
        yield Finding(
            "info",
            "nodes",
            f"SSH is let in from {spec.network.cidr} only, though the nodes have public addresses",
        )


def _network(spec: ClusterSpec) -> Iterator[Finding]:
    if ipaddress.IPv4Network(spec.network.cidr).overlaps(BRIDGES):
        yield Finding(
            "warning",
            "network",
            f"{spec.network.cidr} overlaps {BRIDGES}, which Docker uses on most machines",
            "choose another range for network.cidr, like 10.20.0.0/16",
        )
    if spec.network.nat == "per-zone":
        yield Finding(
            "info",
            "network",
            f"{len(spec.zones)} NAT gateways will be paid for; all nodes run in {spec.zones[0]} and use only its own",
        )


def _sizes(spec: ClusterSpec) -> Iterator[Finding]:
    body = template.text(spec)
    if len(body.encode()) > template.INLINE_LIMIT:
        yield Finding(
            "error",
            "template",
            f"{len(body.encode())} bytes, more than the {template.INLINE_LIMIT} CloudFormation takes",
            "name fewer zones and instance types",
        )
    for name, statements in policy.documents(spec, template.types(template.build(spec))).items():
        if policy.size(policy.text(statements)) > policy.SIZE_LIMIT:
            yield Finding(
                "warning",
                "policy",
                f"policy-{name}.json is longer than the {policy.SIZE_LIMIT} characters of a managed policy",
                "choose a shorter name for the cluster, or attach it inline to a role",
            )
