"""Is there room: what the account may have, less what it has, against what the cluster needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from umiak.cluster.aws import Aws, AwsError
from umiak.cluster.checks.finding import Context, Finding
from umiak.spec.cluster import ClusterSpec

# Families that share AWS's "standard" vCPU quotas (Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances); trn, inf,
# hpc, mac and the others have quotas of their own.
STANDARD_FAMILIES = {"a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"}
STANDARD = "vCPUs of on-demand standard instances"
BASTION_VCPUS = 2
# A NAT gateway counts from the order to its end; one that failed does not.
COUNTED = {"pending", "available", "deleting"}


@dataclass(frozen=True)
class Quota:
    service: str
    code: str
    what: str
    need: int
    used: Callable[[Aws], int]


def check(context: Context) -> list[Finding]:
    if context.exists:
        return [Finding("info", "quotas", "not checked: the cluster exists and its parts are counted already")]
    found = []
    for quota in wanted(context.spec, _vcpus(context)):
        limit, used = _limit(context.aws, quota), quota.used(context.aws)
        if used + quota.need > limit:
            found.append(
                Finding(
                    "error",
                    "quotas",
                    f"{quota.what}: {used} of {limit} in use, {quota.need} more needed",
                    f"ask for more: aws service-quotas request-service-quota-increase --region {context.spec.region} "
                    f"--service-code {quota.service} --quota-code {quota.code} --desired-value {used + quota.need}",
                )
            )
    if not _standard(context.spec):
        found.append(
            Finding(
                "info",
                "quotas",
                f"the vCPU quota of {context.spec.nodes.types[0]} was not checked: look in Service Quotas",
            )
        )
    return found or [Finding("info", "quotas", "there is room for everything")]


def wanted(spec: ClusterSpec, vcpus: int) -> list[Quota]:
    gateways = {"single": 1, "per-zone": len(spec.zones), "none": 0}[spec.network.nat]
    quotas = [
        Quota("vpc", "L-F678F1CE", "VPCs in the region", 1, lambda aws: len(aws.pages("ec2", "DescribeVpcs", "Vpcs"))),
        Quota(
            "vpc",
            "L-A4707A72",
            "internet gateways",
            1,
            lambda aws: len(aws.pages("ec2", "DescribeInternetGateways", "InternetGateways")),
        ),
        Quota("eks", "L-1194D53C", "EKS clusters", 1, lambda aws: len(aws.pages("eks", "ListClusters", "clusters"))),
    ]
    if gateways:
        quotas.append(
            Quota(
                "ec2",
                "L-0263D0A3",
                "elastic IP addresses",
                gateways,
                lambda aws: len(aws.call("ec2", "DescribeAddresses")["Addresses"]),
            )
        )
        quotas += [
            Quota("vpc", "L-FE5A380F", f"NAT gateways in {zone}", 1, partial(_gateways, zone=zone))
            for zone in spec.zones[:gateways]
        ]
    if spec.kubernetes.bastion and (spec.nodes.spot or not _standard(spec)):
        quotas.append(Quota("ec2", "L-1216C47A", STANDARD, BASTION_VCPUS, partial(_running, spot=False)))
    if _standard(spec) and spec.nodes.count:
        code = "L-34B43A08" if spec.nodes.spot else "L-1216C47A"
        what = "vCPUs of spot standard instances" if spec.nodes.spot else STANDARD
        need = spec.nodes.count * vcpus + (BASTION_VCPUS if spec.kubernetes.bastion and not spec.nodes.spot else 0)
        quotas.append(Quota("ec2", code, what, need, lambda aws: _running(aws, spec.nodes.spot)))
    return quotas


def is_standard(instance_type: str) -> bool:
    family = re.match(r"[a-z]+", instance_type)
    return bool(family) and family[0] in STANDARD_FAMILIES  # type: ignore[index]


def _standard(spec: ClusterSpec) -> bool:
    return all(is_standard(name) for name in spec.nodes.types)


def _vcpus(context: Context) -> int:
    """Of the largest type that may be chosen; a type that does not exist is another check's finding."""
    types = context.aws.pages(
        "ec2",
        "DescribeInstanceTypes",
        "InstanceTypes",
        Filters=[{"Name": "instance-type", "Values": list(context.spec.nodes.types)}],
    )
    return max((kind["VCpuInfo"]["DefaultVCpus"] for kind in types), default=0)


def _gateways(aws: Aws, zone: str) -> int:
    """Those of one zone: a gateway names its subnet, and that its zone."""
    places = [item["SubnetId"] for item in aws.pages("ec2", "DescribeNatGateways", "NatGateways") if _counts(item)]
    if not places:
        return 0
    subnets = aws.pages("ec2", "DescribeSubnets", "Subnets", SubnetIds=sorted(set(places)))
    here = {subnet["SubnetId"] for subnet in subnets if subnet["AvailabilityZone"] == zone}
    return sum(place in here for place in places)


def _counts(gateway: dict[str, Any]) -> bool:
    return gateway["State"] in COUNTED and bool(gateway.get("SubnetId"))


def _running(aws: Aws, spot: bool) -> int:
    reservations = aws.pages(
        "ec2",
        "DescribeInstances",
        "Reservations",
        Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}],
    )
    return sum(
        _instance_vcpus(instance)
        for reservation in reservations
        for instance in reservation["Instances"]
        if is_standard(instance["InstanceType"]) and (instance.get("InstanceLifecycle") == "spot") == spot
    )


def _instance_vcpus(instance: dict[str, Any]) -> int:
    options = instance.get("CpuOptions", {})
    return int(options.get("CoreCount", 1)) * int(options.get("ThreadsPerCore", 1))


def _limit(aws: Aws, quota: Quota) -> int:
    """What applies to this account; where AWS has no value of its own for it, what applies to all."""
    where = {"ServiceCode": quota.service, "QuotaCode": quota.code}
    try:
        answer = aws.call("service-quotas", "GetServiceQuota", **where)
    except AwsError as error:
        if error.code != "NoSuchResourceException":
            raise
        answer = aws.call("service-quotas", "GetAWSDefaultServiceQuota", **where)
    return int(answer["Quota"]["Value"])
