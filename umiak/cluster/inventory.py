"""Everything in AWS that belongs to a cluster, in its own region, whoever made it: the stack, EKS, or Kubernetes.

What holds data may also be of an earlier cluster with the same name (`ownership`): it is found, and says so. What Kubernetes
made carries the cluster's name as a tag, and counts only within our own network.

One function for each kind, in the order things are removed. They ask the services themselves, which know what is there now; the
tagging API, which knows all services but is minutes late, is asked last, for what no function here knows.

`everything` answers what is left to remove, `metered` what a created cluster is billed for by the hour or by its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any

from umiak.cluster import stacks
from umiak.cluster.aws import Aws, AwsError
from umiak.cluster.ownership import Owner
from umiak.cluster.template.roles import JOBS, role_name
from umiak.cluster.template.storage import log_group_name
from umiak.cluster.things import Meter, Thing
from umiak.spec.cluster import TAG, ClusterSpec

# Tags by which controllers inside Kubernetes mark what they made.
_OWNED, _BALANCER = "kubernetes.io/cluster/{}", "elbv2.k8s.aws/cluster"
# And the tag of what GuardDuty made, whose value is "true".
_GUARDDUTY = "GuardDutyManaged"
# AWS bills a GB of 2^30 bytes.
_GB = Decimal(2**30)


def everything(aws: Aws, spec: ClusterSpec, owner: Owner) -> list[Thing]:
    found = [thing for look in LOOKS for thing in look(aws, spec, owner)]
    return found + list(_others(aws, spec))


def metered(aws: Aws, spec: ClusterSpec) -> list[Thing]:
    """What a created cluster costs by the hour or by its size, each thing with its meter. Only what is complete or runs."""
    made = {
        title: entry.get("PhysicalResourceId", "")
        for title, entry in stacks.resources(aws, spec.name).items()
        if entry["ResourceStatus"] in ("CREATE_COMPLETE", "UPDATE_COMPLETE")
    }
    found: list[Thing] = []
    if "Cluster" in made:
        since = aws.call("eks", "DescribeCluster", name=spec.name)["cluster"]["createdAt"]
        found.append(Thing("EKS cluster", spec.name, meter=Meter(since)))
    found += [*running_nodes(aws, spec), *_bastion(aws, spec, made.get("Bastion")), *_node_disks(aws, spec)]
    for gateway in _nat_gateways(aws, spec):
        found.append(Thing("NAT gateway", gateway["NatGatewayId"], meter=Meter(gateway["CreateTime"])))
        addresses = [entry["PublicIp"] for entry in gateway["NatGatewayAddresses"] if entry.get("PublicIp")]
        found += [Thing("IP address", address, meter=Meter(gateway["CreateTime"])) for address in addresses]
    if "Key" in made:
        key = aws.call("kms", "DescribeKey", KeyId=made["Key"])["KeyMetadata"]
        found.append(Thing("key", made["Key"], meter=Meter(key["CreationDate"])))
    if name := spec.existing.volume or made.get("Volume"):
        volume = aws.call("efs", "DescribeFileSystems", FileSystemId=name)["FileSystems"][0]
        size = Decimal(volume["SizeInBytes"]["Value"]) / _GB
        found.append(Thing("file system", name, meter=Meter(volume["CreationTime"], size, "GB")))
    return found


def _missing(ask: Callable[[], dict[str, Any]], *codes: str) -> dict[str, Any] | None:
    try:
        return ask()
    except AwsError as error:
        if error.code in codes:
            return None
        raise


def _tags(entries: list[dict[str, str]]) -> dict[str, str]:
    return {entry["Key"]: entry["Value"] for entry in entries}


def _by_kubernetes(tags: dict[str, str], cluster: str) -> bool:
    return tags.get(_OWNED.format(cluster)) == "owned" or tags.get(_BALANCER) == cluster


def _filter(spec: ClusterSpec) -> list[dict[str, Any]]:
    return [{"Name": f"tag:{TAG}", "Values": [spec.name]}]


def load_balancers(aws: Aws, spec: ClusterSpec, owner: Owner) -> Iterator[Thing]:
    """Made by Kubernetes. The detail tells the two generations apart."""
    ours = {vpc.name for vpc in networks(aws, spec, owner)}
    if not ours:
        return
    every = aws.pages("elb", "DescribeLoadBalancers", "LoadBalancerDescriptions")
    classic = [entry["LoadBalancerName"] for entry in every if entry.get("VPCId") in ours]
    for names in _batched(classic, 20):
        answer = _missing(
            partial(aws.call, "elb", "DescribeTags", LoadBalancerNames=list(names)),
            "LoadBalancerNotFound",
            "AccessPointNotFoundException",
        )
        for entry in (answer or {}).get("TagDescriptions", []):
            if _by_kubernetes(_tags(entry["Tags"]), spec.name):
                yield Thing("load balancer", entry["LoadBalancerName"], detail="classic")
    newer = aws.pages("elbv2", "DescribeLoadBalancers", "LoadBalancers")
    arns = [entry["LoadBalancerArn"] for entry in newer if entry.get("VpcId") in ours]
    for names in _batched(arns, 20):
        answer = _missing(
            partial(aws.call, "elbv2", "DescribeTags", ResourceArns=list(names)),
            "LoadBalancerNotFound",
        )
        for entry in (answer or {}).get("TagDescriptions", []):
            if _by_kubernetes(_tags(entry["Tags"]), spec.name):
                yield Thing("load balancer", entry["ResourceArn"])


def _batched(items: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def node_groups(aws: Aws, spec: ClusterSpec, owner: Owner) -> Iterator[Thing]:
    if not any(True for _ in cluster(aws, spec, owner)):
        return
    answer = _missing(partial(aws.call, "eks", "ListNodegroups", clusterName=spec.name), "ResourceNotFoundException")
    for name in (answer or {}).get("nodegroups", []):
        yield Thing("node group", name)


def nodes(aws: Aws, spec: ClusterSpec, owner: Owner) -> Iterator[Thing]:
    ours = [vpc.name for vpc in networks(aws, spec, owner)]
    if not ours:
        return
    filters = [
        {"Name": "vpc-id", "Values": ours},
        {"Name": "tag:eks:cluster-name", "Values": [spec.name]},
        {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]},
    ]
    for instance in _instances(aws, filters):
        yield _machine("node", instance)


def running_nodes(aws: Aws, spec: ClusterSpec) -> Iterator[Thing]:
    """With their public addresses."""
    filters = [
        {"Name": "tag:eks:cluster-name", "Values": [spec.name]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
    ]
    for instance in _instances(aws, filters):
        yield _machine("node", instance)
        yield from _address(instance)


def _bastion(aws: Aws, spec: ClusterSpec, name: str | None) -> Iterator[Thing]:
    if name is None:
        return
    for instance in _instances(aws, _filter(spec)):
        if instance["InstanceId"] == name and instance["State"]["Name"] in ("pending", "running"):
            yield _machine("bastion", instance)
            yield from _address(instance)


def _instances(aws: Aws, filters: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for reservation in aws.pages("ec2", "DescribeInstances", "Reservations", Filters=filters):
        yield from reservation["Instances"]


def _machine(kind: str, instance: dict[str, Any]) -> Thing:
    spot = instance.get("InstanceLifecycle") == "spot"
    meter = Meter(instance["LaunchTime"], spot=spot, zone=instance["Placement"]["AvailabilityZone"])
    return Thing(kind, instance["InstanceId"], detail=instance["InstanceType"], meter=meter)


def _address(instance: dict[str, Any]) -> Iterator[Thing]:
    if instance.get("PublicIpAddress"):
        yield Thing("IP address", instance["PublicIpAddress"], meter=Meter(instance["LaunchTime"]))


def disks(aws: Aws, spec: ClusterSpec, owner: Owner) -> Iterator[Thing]:
    """Of nodes, by our tag; of Kubernetes' claims, by its own."""
    yield from _node_disks(aws, spec)
    yield from kubernetes_disks(aws, spec, owner)


def _node_disks(aws: Aws, spec: ClusterSpec) -> Iterator[Thing]:
    for volume in aws.pages("ec2", "DescribeVolumes", "Volumes", Filters=_filter(spec)):
        meter = Meter(volume["CreateTime"], Decimal(volume["Size"]), "GB", volume["VolumeType"])
        yield Thing("disk", volume["VolumeId"], detail="of a node", meter=meter)


def kubernetes_disks(aws: Aws, spec: ClusterSpec, owner: Owner) -> Iterator[Thing]:
    """A disk is in no network; one that is older than the cluster is of another with the same name."""
    filters = [{"Name": "tag-key", "Values": [_OWNED.format(spec.name)]}]
    for volume in aws.pages("ec2", "DescribeVolumes", "Volumes", Filters=filters):
        if _by_kubernetes(_tags(volume.get("Tags", [])), spec.name) and owner.was_there(volume["CreateTime"]):
            yield Thing("disk", volume["VolumeId"], detail="made by Kubernetes")


def cluster(aws: Aws, spec: ClusterSpec, owner: Owner) -> Iterator[Thing]:
    """By its name; not one that something else made, which our tag tells."""
    if _control_plane(aws, spec).get("tags", {}).get(TAG) == spec.name:
        yield Thing("EKS cluster", spec.name)


def _control_plane(aws: Aws, spec: ClusterSpec) -> dict[str, Any]:
    """Of that name, whoever made it; empty when there is none."""
    answer = _missing(partial(aws.call, "eks", "DescribeCluster", name=spec.name), "ResourceNotFoundException")
    found: dict[str, Any] = answer["cluster"] if answer else {}
    return found


def gateways(aws: Aws, spec: ClusterSpec, owner: Owner) -> Iterator[Thing]:
    for gateway in _nat_gateways(aws, spec):
        yield Thing("NAT gateway", gateway["NatGatewayId"])
    for address in aws.call("ec2", "DescribeAddresses", Filters=_filter(spec))["Addresses"]:
        yield Thing("IP address", address["PublicIp"])


def _nat_gateways(aws: Aws, spec: ClusterSpec) -> Iterator[dict[str, Any]]:
    for gateway in aws.pages("ec2", "DescribeNatGateways", "NatGateways", Filters=_filter(spec)):
        if gateway["State"] not in ("deleted", "deleting", "failed"):
            yield gateway


def networks(aws: Aws, spec: ClusterSpec, owner: Owner) -> Iterator[Thing]:
    for vpc in aws.pages("ec2", "DescribeVpcs", "Vpcs", Filters=_filter(spec)):
        yield Thing("VPC", vpc["VpcId"], billed=False)


def free_interfaces(aws: Aws, vpc: str) -> Iterator[Thing]:
    """That nothing uses any more; they keep their subnets and groups from being deleted."""
    filters = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "status", "Values": ["available"]}]
    for item in aws.pages("ec2", "DescribeNetworkInterfaces", "NetworkInterfaces", Filters=filters):
        yield Thing("network interface", item["NetworkInterfaceId"], False, item.get("Description", ""))


def guardduty_endpoints(aws: Aws, vpc: str) -> Iterator[Thing]:
    """GuardDuty puts an endpoint into each VPC that it watches, and leaves it there."""
    filters = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": f"tag:{_GUARDDUTY}", "Values": ["true"]}]
    for item in aws.pages("ec2", "DescribeVpcEndpoints", "VpcEndpoints", Filters=filters):
        if item["State"].lower() not in ("deleting", "deleted"):
            yield Thing("VPC endpoint", item["VpcEndpointId"], True, item.get("ServiceName", ""))


def stray_groups(aws: Aws, spec: ClusterSpec, vpc: str) -> Iterator[Thing]:
    """Security groups of Kubernetes' load balancers, of GuardDuty, and EKS's own if it was left behind."""
    filters = [{"Name": "vpc-id", "Values": [vpc]}]
    for group in aws.pages("ec2", "DescribeSecurityGroups", "SecurityGroups", Filters=filters):
        tags = _tags(group.get("Tags", []))
        eks = group["GroupName"].startswith(f"eks-cluster-sg-{spec.name}-")
        if _by_kubernetes(tags, spec.name) or tags.get(_GUARDDUTY) == "true" or eks:
            yield Thing("security group", group["GroupId"], False, group["GroupName"])


def volumes(aws: Aws, spec: ClusterSpec, owner: Owner) -> Iterator[Thing]:
    for volume in aws.pages("efs", "DescribeFileSystems", "FileSystems"):
        name, tags = volume["FileSystemId"], _tags(volume.get("Tags", []))
        if tags.get(TAG) == spec.name and volume["LifeCycleState"] not in ("deleting", "deleted"):
            yield Thing("file system", name, earlier=not owner.owns(name, tags))


def buckets(aws: Aws, spec: ClusterSpec, owner: Owner) -> Iterator[Thing]:
    """By the beginning of its name, which CloudFormation gave it, and by our tag. S3 lists those of all regions."""
    here = {"Prefix": f"{spec.name}-", "BucketRegion": spec.region}
    for bucket in aws.pages("s3", "ListBuckets", "Buckets", **here):
        name = bucket["Name"]
        if not name.startswith(f"{spec.name}-"):
            continue
        answer = _missing(
            partial(aws.call, "s3", "GetBucketTagging", Bucket=name),
            "NoSuchTagSet",
            "NoSuchBucket",
        )
        tags = _tags(answer["TagSet"]) if answer else {}
        if tags.get(TAG) == spec.name:
            yield Thing("bucket", name, earlier=not owner.owns(name, tags))


def repositories(aws: Aws, spec: ClusterSpec, owner: Owner) -> Iterator[Thing]:
    for repository in aws.pages("ecr", "DescribeRepositories", "repositories"):
        name = repository["repositoryName"]
        if not name.startswith(f"{spec.name}-"):
            continue
        answer = _missing(
            partial(aws.call, "ecr", "ListTagsForResource", resourceArn=repository["repositoryArn"]),
            "RepositoryNotFoundException",
        )
        tags = _tags(answer["tags"]) if answer else {}
        if tags.get(TAG) == spec.name:
            yield Thing("image repository", name, earlier=not owner.owns(name, tags))


def keys(aws: Aws, spec: ClusterSpec, owner: Owner) -> Iterator[Thing]:
    """By our tag; a key that is going to be deleted counts as gone: it costs nothing any more."""
    for arn, tags in _tagged(aws, spec):
        if arn.split(":")[2] != "kms":
            continue
        answer = _missing(partial(aws.call, "kms", "DescribeKey", KeyId=arn), "NotFoundException")
        if answer and answer["KeyMetadata"]["KeyState"] not in ("PendingDeletion", "PendingReplicaDeletion"):
            name = answer["KeyMetadata"]["KeyId"]
            yield Thing("key", name, earlier=not owner.owns(name, tags))


def log_groups(aws: Aws, spec: ClusterSpec, owner: Owner) -> Iterator[Thing]:
    name = log_group_name(spec.name)
    if _control_plane(aws, spec) and not any(True for _ in cluster(aws, spec, owner)):
        # It has that name because EKS gives it, and it is not ours.
        return
    for group in aws.pages("logs", "DescribeLogGroups", "logGroups", logGroupNamePrefix=name):
        if group["logGroupName"] == name:
            yield Thing("log group", name)


def roles(aws: Aws, spec: ClusterSpec, owner: Owner) -> Iterator[Thing]:
    for name in (role_name(spec.name, spec.region, job) for job in JOBS):
        if _missing(partial(aws.call, "iam", "GetRole", RoleName=name), "NoSuchEntity"):
            yield Thing("role", name, billed=False)


LOOKS: tuple[Callable[[Aws, ClusterSpec, Owner], Iterator[Thing]], ...] = (
    load_balancers,
    node_groups,
    nodes,
    disks,
    cluster,
    gateways,
    networks,
    volumes,
    buckets,
    repositories,
    keys,
    log_groups,
    roles,
)
# Parts of ARNs, (service, beginning of the resource), of which a function above or the VPC's absence says what is left.
_KNOWN = (
    ("cloudformation", "stack/"),
    ("ec2", ""),
    ("ecr", "repository/"),
    ("eks", ""),
    ("elasticfilesystem", ""),
    ("elasticloadbalancing", ""),
    ("kms", "key/"),
    ("logs", "log-group:"),
    ("s3", ""),
)


def _tagged(aws: Aws, spec: ClusterSpec) -> list[tuple[str, dict[str, str]]]:
    """ARNs and tags."""
    filters = [{"Key": TAG, "Values": [spec.name]}]
    found = aws.pages("resourcegroupstaggingapi", "GetResources", "ResourceTagMappingList", TagFilters=filters)
    return [(entry["ResourceARN"], _tags(entry.get("Tags", []))) for entry in found]


def _others(aws: Aws, spec: ClusterSpec) -> Iterator[Thing]:
    for arn, _ in _tagged(aws, spec):
        service, rest = arn.split(":")[2], arn.split(":", 5)[5]
        if not any(service == known and rest.startswith(start) for known, start in _KNOWN):
            yield Thing("resource", arn)
