"""Can it run there: zones by their real id, instance types by what a zone offers, the Kubernetes version by AWS's own list."""

from __future__ import annotations

from typing import Any

from umiak.cluster.aws import Aws
from umiak.cluster.checks.finding import Context, Finding, Level
from umiak.cluster.checks.offline import support
from umiak.cluster.template import bastion
from umiak.spec.cluster import architecture

# EKS puts no control plane here. Ids, because the name of a zone is another in every account.
NO_EKS = {"use1-az3", "usw1-az2", "cac1-az3"}
LEAST_MEMORY_MIB = 4096


def zones(context: Context) -> list[Finding]:
    known = _zones(context.aws)
    good = sorted(name for name, zone in known.items() if _usable(zone))
    found = []
    for name in context.spec.zones:
        zone = known.get(name)
        advice = f"choose from {', '.join(good)} for zones"
        if zone is None:
            found.append(Finding("error", "zones", f"this account has no zone {name}", advice))
        elif zone["ZoneId"] in NO_EKS:
            found.append(
                Finding("error", "zones", f"{name} is {zone['ZoneId']}, which cannot hold an EKS control plane", advice)
            )
        elif not _usable(zone):
            found.append(Finding("error", "zones", f"{name} is {zone['State']}", advice))
    ids = ", ".join(f"{name} is {known[name]['ZoneId']}" for name in context.spec.zones if name in known)
    return found or [Finding("info", "zones", ids)]


def _zones(aws: Aws) -> dict[str, dict[str, Any]]:
    answer = aws.call("ec2", "DescribeAvailabilityZones")["AvailabilityZones"]
    return {
        zone["ZoneName"]: zone for zone in answer if zone.get("ZoneType", "availability-zone") == "availability-zone"
    }


def _usable(zone: dict[str, Any]) -> bool:
    return zone["State"] == "available" and zone["ZoneId"] not in NO_EKS


def instance_types(context: Context) -> list[Finding]:
    aws, nodes, zone = context.aws, context.spec.nodes, context.spec.zones[0]
    way_in = [bastion.TYPE] if context.spec.kubernetes.bastion and bastion.TYPE not in nodes.types else []
    offers = aws.pages(
        "ec2",
        "DescribeInstanceTypeOfferings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": sorted({*nodes.types, *way_in})}],
    )
    places: dict[str, set[str]] = {name: set() for name in nodes.types}
    for offer in offers:
        places.setdefault(offer["InstanceType"], set()).add(offer["Location"])
    found = [
        Finding(
            "error",
            "node types",
            f"{zone} has no {name}, which the bastion needs",
            "put another zone first in zones, or let addresses in with --api-access",
        )
        for name in way_in
        if zone not in places.pop(name, set())
    ]
    for name, where in places.items():
        if not where:
            found.append(
                Finding(
                    "error", "node types", f"{context.spec.region} has no {name}", "choose another type for nodes.types"
                )
            )
        elif zone not in where:
            found.append(
                Finding(
                    "error",
                    "node types",
                    f"{zone} has no {name}; {', '.join(sorted(where))} have",
                    "put one of these first in zones, or choose another type for nodes.types",
                )
            )
    offered = [name for name, where in places.items() if where]
    if offered:
        found += _suited(aws.call("ec2", "DescribeInstanceTypes", InstanceTypes=offered)["InstanceTypes"])
    return found or [Finding("info", "node types", f"{zone} offers {', '.join(nodes.types)}")]


def _suited(types: list[dict[str, Any]]) -> list[Finding]:
    found = []
    for kind in types:
        name = kind["InstanceType"]
        if architecture(name) not in kind["ProcessorInfo"]["SupportedArchitectures"]:
            found.append(
                Finding(
                    "error",
                    "node types",
                    f"{name} is {' or '.join(kind['ProcessorInfo']['SupportedArchitectures'])}, which the nodes' image is not",
                    "choose another type for nodes.types",
                )
            )
        if kind["MemoryInfo"]["SizeInMiB"] < LEAST_MEMORY_MIB:
            found.append(
                Finding(
                    "warning",
                    "node types",
                    f"{name} has {kind['MemoryInfo']['SizeInMiB']} MiB of memory, too little for a trainer beside the system",
                    "choose a larger type for nodes.types",
                )
            )
        if kind.get("GpuInfo"):
            found.append(
                Finding(
                    "warning",
                    "node types",
                    f"the GPU of {name} would be paid for and idle: training runs on CPUs",
                    "choose a type without a GPU for nodes.types",
                )
            )
    sizes = {kind["InstanceType"]: kind["VCpuInfo"]["DefaultVCpus"] for kind in types}
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"{name} has {count} vCPUs" for name, count in sorted(sizes.items()))
        found.append(
            Finding(
                "warning",
                "node types",
                f"{shown}: in synchronous training the slowest node sets the pace",
                "choose types of one size for nodes.types",
            )
        )
    return found


def kubernetes_version(context: Context) -> list[Finding]:
    version = context.spec.kubernetes.version
    answer = context.aws.pages("eks", "DescribeClusterVersions", "clusterVersions")
    known = {entry["clusterVersion"]: entry for entry in answer}
    standard = sorted(name for name, entry in known.items() if entry["versionStatus"] == "STANDARD_SUPPORT")
    advice = f"write one of {', '.join(standard)} for kubernetes.version"
    exists = context.exists
    level: Level = "warning" if exists else "error"
    if version not in known:
        return [Finding(level, "kubernetes", f"EKS does not offer {version}", advice)]
    entry = known[version]
    if entry["versionStatus"] != "STANDARD_SUPPORT":
        status = entry["versionStatus"].lower().replace("_", " ")
        return [Finding(level, "kubernetes", f"{version} is not in standard support but in {status}", advice)]
    found = [support(version, entry["endOfStandardSupportDate"].date(), context.today, exists)]
    newest = max(standard, key=lambda name: [int(part) for part in name.split(".")])
    if newest != version:
        found.append(Finding("info", "kubernetes", f"{newest} is the newest in standard support"))
    return found
