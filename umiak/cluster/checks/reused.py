"""What cluster.yaml says exists and is to be used again: there, in this region and account, encrypted by the right key, free."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from umiak.cluster.aws import AwsError
from umiak.cluster.checks.finding import Context, Finding

CHECK = "existing"


def check(context: Context) -> list[Finding]:
    found = [*_volume(context), *_bucket(context), *_images(context)]
    used = [value for value in vars(context.spec.existing).values() if isinstance(value, str)]
    if used and not any(finding.level == "error" for finding in found):
        found.append(Finding("info", CHECK, f"{', '.join(used)} will be used, and never deleted with the cluster"))
    return found


def _volume(context: Context) -> Iterator[Finding]:
    name = context.spec.existing.volume
    if name is None:
        return
    try:
        volume = context.aws.call("efs", "DescribeFileSystems", FileSystemId=name)["FileSystems"][0]
    except AwsError as error:
        if error.code != "FileSystemNotFound":
            raise
        yield _missing("volume", f"file system {name}", context)
        return
    if volume["LifeCycleState"] not in ("available", "updating"):
        yield Finding("error", CHECK, f"the file system {name} is {volume['LifeCycleState']}", "wait, or name another")
    if not volume.get("Encrypted"):
        yield Finding(
            "error",
            CHECK,
            f"the file system {name} is not encrypted, and that cannot be changed",
            "copy its data into a new volume (existing.volume: null)",
        )
    else:
        yield from _key(context, "volume", f"file system {name}", volume.get("KmsKeyId"))
    mounts = context.aws.call("efs", "DescribeMountTargets", FileSystemId=name)["MountTargets"]
    if mounts and context.stack is None:
        yield Finding(
            "error",
            CHECK,
            f"the file system {name} is mounted in {mounts[0].get('VpcId', 'another VPC')}; EFS allows one VPC at a time",
            "remove its mount targets there, or name another in existing.volume",
        )


def _bucket(context: Context) -> Iterator[Finding]:
    name, region = context.spec.existing.bucket, context.spec.region
    if name is None:
        return
    # S3 lists the buckets of this account only.
    listed = context.aws.pages("s3", "ListBuckets", "Buckets", Prefix=name, BucketRegion=region)
    if not any(bucket["Name"] == name for bucket in listed):
        yield _missing("bucket", f"bucket {name}", context)
        return
    try:
        answer = context.aws.call("s3", "GetBucketEncryption", Bucket=name)
    except AwsError as error:
        if error.code != "ServerSideEncryptionConfigurationNotFoundError":
            raise
        answer = {}
    yield from _key(context, "bucket", f"bucket {name}", _bucket_key(answer))


def _bucket_key(answer: dict[str, Any]) -> str | None:
    for rule in answer.get("ServerSideEncryptionConfiguration", {}).get("Rules", []):
        default = rule.get("ApplyServerSideEncryptionByDefault", {})
        if default.get("SSEAlgorithm") == "aws:kms":
            return str(default.get("KMSMasterKeyID", "")) or None
    return None


def _images(context: Context) -> Iterator[Finding]:
    name = context.spec.existing.images
    if name is None:
        return
    try:
        context.aws.call("ecr", "DescribeRepositories", repositoryNames=[name])
    except AwsError as error:
        if error.code != "RepositoryNotFoundException":
            raise
        yield _missing("images", f"image repository {name}", context)


def _missing(field: str, what: str, context: Context) -> Finding:
    return Finding(
        "error",
        CHECK,
        f"there is no {what} in {context.spec.region} in account {context.caller.account}",
        f"correct existing.{field}, or write null to have one made",
    )


def _key(context: Context, field: str, what: str, key: str | None) -> Iterator[Finding]:
    """The pods' role may use one key: that of cluster.yaml."""
    wanted = context.spec.kms_key_arn
    if key and (wanted is None or wanted.rpartition("/")[2] != key.rpartition("/")[2]):
        arn = key if key.startswith("arn:") else f"the ARN of key {key}"
        yield Finding(
            "error",
            CHECK,
            f"the {what} is encrypted by {key}, and kms_key_arn says {wanted or 'null'}",
            f"write kms_key_arn: {arn}",
        )
    elif key is None and field == "bucket":
        yield Finding("info", CHECK, f"the {what} is encrypted by a key of AWS's, not by yours")
