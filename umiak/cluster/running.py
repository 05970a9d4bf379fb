"""What a created cluster consists of, as far as it costs by the hour or by its size; each resource with its real age."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from umiak.cluster.aws import Aws
from umiak.spec.cluster import TAG, ClusterSpec

# AWS bills a GB of 2^30 bytes.
GB = Decimal(2**30)


@dataclass(frozen=True)
class Resource:
    kind: str
    name: str
    since: datetime
    quantity: Decimal = Decimal(1)
    unit: str = ""
    # An instance's type, a disk's kind.
    detail: str = ""
    spot: bool = False
    zone: str = ""


def resources(aws: Aws, spec: ClusterSpec) -> list[Resource]:
    made = {
        entry["LogicalResourceId"]: entry.get("PhysicalResourceId", "")
        for entry in aws.call("cloudformation", "DescribeStackResources", StackName=spec.name)["StackResources"]
        if entry["ResourceStatus"] in ("CREATE_COMPLETE", "UPDATE_COMPLETE")
    }
    found: list[Resource] = []
    if "Cluster" in made:
        cluster = aws.call("eks", "DescribeCluster", name=spec.name)["cluster"]
        found.append(Resource("EKS control plane", spec.name, cluster["createdAt"]))
    found += [*nodes(aws, spec), *_bastion(aws, spec, made.get("Bastion")), *_disks(aws, spec), *_gateways(aws, spec)]
    if "Key" in made:
        key = aws.call("kms", "DescribeKey", KeyId=made["Key"])["KeyMetadata"]
        found.append(Resource("KMS key", made["Key"], key["CreationDate"]))
    if name := spec.existing.volume or made.get("Volume"):
        volume = aws.call("efs", "DescribeFileSystems", FileSystemId=name)["FileSystems"][0]
        size = Decimal(volume["SizeInBytes"]["Value"]) / GB
        found.append(Resource("EFS stored", name, volume["CreationTime"], size, "GB"))
    return found


def nodes(aws: Aws, spec: ClusterSpec) -> Iterator[Resource]:
    reservations = aws.pages(
        "ec2",
        "DescribeInstances",
        "Reservations",
        Filters=[
            {"Name": "tag:eks:cluster-name", "Values": [spec.name]},
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
        ],
    )
    for instance in (item for reservation in reservations for item in reservation["Instances"]):
        yield Resource(
            "node",
            instance["InstanceId"],
            instance["LaunchTime"],
            detail=instance["InstanceType"],
            spot=instance.get("InstanceLifecycle") == "spot",
            zone=instance["Placement"]["AvailabilityZone"],
        )
        if instance.get("PublicIpAddress"):
            yield Resource("public IPv4 address", instance["PublicIpAddress"], instance["LaunchTime"])


def _bastion(aws: Aws, spec: ClusterSpec, name: str | None) -> Iterator[Resource]:
    if name is None:
        return
    reservations = aws.pages("ec2", "DescribeInstances", "Reservations", Filters=_tagged(spec))
    for instance in (item for reservation in reservations for item in reservation["Instances"]):
        if instance["InstanceId"] == name and instance["State"]["Name"] in ("pending", "running"):
            yield Resource("bastion", name, instance["LaunchTime"], detail=instance["InstanceType"])
            if instance.get("PublicIpAddress"):
                yield Resource("public IPv4 address", instance["PublicIpAddress"], instance["LaunchTime"])


def _disks(aws: Aws, spec: ClusterSpec) -> Iterator[Resource]:
    for volume in aws.pages("ec2", "DescribeVolumes", "Volumes", Filters=_tagged(spec)):
        yield Resource(
            "disk", volume["VolumeId"], volume["CreateTime"], Decimal(volume["Size"]), "GB", volume["VolumeType"]
        )


def _gateways(aws: Aws, spec: ClusterSpec) -> Iterator[Resource]:
    for gateway in aws.pages("ec2", "DescribeNatGateways", "NatGateways", Filters=_tagged(spec)):
        if gateway["State"] not in ("pending", "available"):
            continue
        yield Resource("NAT gateway", gateway["NatGatewayId"], gateway["CreateTime"])
        for address in gateway["NatGatewayAddresses"]:
            if address.get("PublicIp"):
                yield Resource("public IPv4 address", address["PublicIp"], gateway["CreateTime"])


def _tagged(spec: ClusterSpec) -> list[dict[str, Any]]:
    return [{"Name": f"tag:{TAG}", "Values": [spec.name]}]
