"""Removing one kind of thing: look, delete, wait until it is gone. Each can be done again at any time; what is gone is skipped.

These are what CloudFormation cannot remove because it did not make it, or will not because something is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from umiak.cluster import inventory, waiting
from umiak.cluster.aws import Aws, AwsError
from umiak.cluster.ownership import Owner
from umiak.cluster.things import Thing
from umiak.errors import RetryError
from umiak.spec.cluster import ClusterSpec

Say = Callable[[str], None]
# Gone already, or not free yet: the next look shows which.
_LATER = {
    "AccessPointNotFoundException",
    "ClusterNotFoundException",
    "DependencyViolation",
    "FileSystemInUse",
    "FileSystemNotFound",
    "InvalidGroup.NotFound",
    "InvalidNetworkInterfaceID.NotFound",
    "InvalidParameterValue",
    "InvalidVolume.NotFound",
    "InvalidVpcEndpointId.NotFound",
    "LoadBalancerNotFound",
    "MountTargetNotFound",
    "NoSuchBucket",
    "NoSuchUpload",
    "RepositoryNotFoundException",
    "ResourceInUseException",
    "ResourceNotFoundException",
    "VolumeInUse",
}
# What one kind may take until it is gone.
LIMIT = 1200.0
KEY_DAYS = 7
BATCH = 1000


def until_gone(look: Callable[[], Iterator[Thing]], remove: Callable[[Thing], object], say: Say) -> bool:
    """Whether there was anything. Deletes again at every look: what was in the way may have left."""
    told: set[Thing] = set()
    patience = waiting.Patience()
    for moved in waiting.pauses(LIMIT, "the removal"):
        try:
            left = list(look())
            for thing in left:
                if thing not in told:
                    say(f"removing {thing}")
                attempt(partial(remove, thing))
                told.add(thing)
        except RetryError as error:
            patience.bear(error)
            continue
        patience.calm()
        if not left:
            return bool(told)
        if len(left) < len(told):
            moved()
    raise AssertionError("pauses end with an error")


def attempt(request: Callable[[], object]) -> bool:
    """Whether it was accepted; what is gone or not free yet is no error."""
    try:
        request()
    except AwsError as error:
        if error.code not in _LATER:
            raise
        return False
    return True


def load_balancers(aws: Aws, spec: ClusterSpec, owner: Owner, say: Say) -> None:
    def remove(thing: Thing) -> None:
        if thing.detail == "classic":
            aws.call("elb", "DeleteLoadBalancer", LoadBalancerName=thing.name)
        else:
            aws.call("elbv2", "DeleteLoadBalancer", LoadBalancerArn=thing.name)

    until_gone(lambda: inventory.load_balancers(aws, spec, owner), remove, say)


def node_groups(aws: Aws, spec: ClusterSpec, owner: Owner, say: Say) -> None:
    def remove(thing: Thing) -> None:
        status = aws.call("eks", "DescribeNodegroup", clusterName=spec.name, nodegroupName=thing.name)
        if status["nodegroup"]["status"] != "DELETING":
            aws.call("eks", "DeleteNodegroup", clusterName=spec.name, nodegroupName=thing.name)

    until_gone(lambda: inventory.node_groups(aws, spec, owner), remove, say)


def disks(aws: Aws, spec: ClusterSpec, owner: Owner, say: Say) -> None:
    until_gone(
        lambda: inventory.kubernetes_disks(aws, spec, owner),
        lambda thing: aws.call("ec2", "DeleteVolume", VolumeId=thing.name),
        say,
    )


def interfaces(aws: Aws, vpc: str, say: Say) -> None:
    """Those that nothing uses, once: what is used becomes free later, if at all."""
    for thing in inventory.free_interfaces(aws, vpc):
        say(f"removing {thing}")
        attempt(partial(aws.call, "ec2", "DeleteNetworkInterface", NetworkInterfaceId=thing.name))


def endpoints(aws: Aws, vpc: str, say: Say) -> None:
    """GuardDuty's, once: as long as there is a control plane to watch, another may come."""
    for thing in inventory.guardduty_endpoints(aws, vpc):
        say(f"removing {thing}")
        attempt(partial(aws.call, "ec2", "DeleteVpcEndpoints", VpcEndpointIds=[thing.name]))


def groups(aws: Aws, spec: ClusterSpec, owner: Owner, vpc: str, say: Say) -> None:
    """Once. EKS's own goes with its cluster; it is here only if that failed."""
    there = {thing.kind for thing in inventory.cluster(aws, spec, owner)}
    for thing in inventory.stray_groups(aws, spec, vpc):
        if "EKS cluster" in there and thing.detail.startswith("eks-cluster-sg-"):
            continue
        if attempt(partial(aws.call, "ec2", "DeleteSecurityGroup", GroupId=thing.name)):
            say(f"removed {thing}")


def empty(aws: Aws, bucket: str, say: Say) -> None:
    """Every object, version and deletion mark, and unfinished uploads."""
    count = 0
    batch: list[dict[str, str]] = []

    def flush() -> None:
        nonlocal count
        if batch:
            answer = aws.call("s3", "DeleteObjects", Bucket=bucket, Delete={"Objects": batch, "Quiet": True})
            for failed in answer.get("Errors", []):
                raise AwsError(f"cannot delete {failed['Key']} in {bucket}: {failed['Message']}", failed["Code"])
            count += len(batch)
            batch.clear()

    try:
        for items in ("Versions", "DeleteMarkers"):
            for entry in aws.each("s3", "ListObjectVersions", items, Bucket=bucket):
                batch.append({"Key": entry["Key"], "VersionId": entry["VersionId"]})
                if len(batch) == BATCH:
                    flush()
            flush()
        for entry in aws.pages("s3", "ListMultipartUploads", "Uploads", Bucket=bucket):
            attempt(
                partial(
                    aws.call,
                    "s3",
                    "AbortMultipartUpload",
                    Bucket=bucket,
                    Key=entry["Key"],
                    UploadId=entry["UploadId"],
                )
            )
    except AwsError as error:
        if error.code != "NoSuchBucket":
            raise
    if count:
        say(f"emptied bucket {bucket}: {count} versions and marks")


def bucket(aws: Aws, thing: Thing, say: Say) -> None:
    empty(aws, thing.name, say)
    aws.call("s3", "DeleteBucket", Bucket=thing.name)


def volume(aws: Aws, thing: Thing, say: Say) -> None:
    """With its mount targets, which must be gone first."""
    for target in aws.call("efs", "DescribeMountTargets", FileSystemId=thing.name)["MountTargets"]:
        attempt(partial(aws.call, "efs", "DeleteMountTarget", MountTargetId=target["MountTargetId"]))
    aws.call("efs", "DeleteFileSystem", FileSystemId=thing.name)


def repository(aws: Aws, thing: Thing, say: Say) -> None:
    aws.call("ecr", "DeleteRepository", repositoryName=thing.name, force=True)


def key(aws: Aws, thing: Thing, say: Say) -> None:
    aws.call("kms", "ScheduleKeyDeletion", KeyId=thing.name, PendingWindowInDays=KEY_DAYS)


def log_group(aws: Aws, spec: ClusterSpec, owner: Owner, say: Say) -> None:
    until_gone(
        lambda: inventory.log_groups(aws, spec, owner),
        lambda thing: aws.call("logs", "DeleteLogGroup", logGroupName=thing.name),
        say,
    )
