"""Makers of KMS, S3, ECR and EFS resources: the API calls of CloudFormation, with every property taken or refused."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.fake_aws.properties import Maker, Properties, Result


def _key(make: Maker, p: Properties) -> Result:
    kms = make.client("kms")
    tags = [{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in p.plain("Tags")]
    made = kms.create_key(Description=p.take("Description"), Policy=json.dumps(p.plain("KeyPolicy")), Tags=tags)[
        "KeyMetadata"
    ]
    if p.take("EnableKeyRotation"):
        kms.enable_key_rotation(KeyId=made["KeyId"])
    # Only for the day it is deleted.
    p.take("PendingWindowInDays")
    return made["KeyId"], {"Arn": made["Arn"]}


def _alias(make: Maker, p: Properties) -> Result:
    make.client("kms").create_alias(AliasName=p.take("AliasName"), TargetKeyId=p.take("TargetKeyId"))
    return p.take("AliasName"), {}


def _bucket(make: Maker, p: Properties) -> Result:
    s3, name = make.client("s3"), make.name
    (ownership,) = p.take("OwnershipControls").take("Rules")
    s3.create_bucket(
        Bucket=name,
        CreateBucketConfiguration={"LocationConstraint": s3.meta.region_name},
        ObjectOwnership=ownership.take("ObjectOwnership"),
    )
    (rule,) = p.take("BucketEncryption").take("ServerSideEncryptionConfiguration")
    default = rule.take("ServerSideEncryptionByDefault")
    s3.put_bucket_encryption(
        Bucket=name,
        ServerSideEncryptionConfiguration={
            "Rules": [
                {
                    "ApplyServerSideEncryptionByDefault": {
                        "SSEAlgorithm": default.take("SSEAlgorithm"),
                        "KMSMasterKeyID": default.take("KMSMasterKeyID"),
                    },
                    "BucketKeyEnabled": rule.take("BucketKeyEnabled"),
                }
            ]
        },
    )
    (lifecycle,) = p.take("LifecycleConfiguration").take("Rules")
    s3.put_bucket_lifecycle_configuration(
        Bucket=name,
        LifecycleConfiguration={
            "Rules": [
                {
                    "ID": lifecycle.take("Id"),
                    "Status": lifecycle.take("Status"),
                    "Filter": {"Prefix": ""},
                    "AbortIncompleteMultipartUpload": lifecycle.plain("AbortIncompleteMultipartUpload"),
                }
            ]
        },
    )
    s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=p.plain("PublicAccessBlockConfiguration"))
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=p.plain("VersioningConfiguration"))
    s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": p.plain("Tags")})
    return name, {"Arn": f"arn:aws:s3:::{name}"}


def _bucket_policy(make: Maker, p: Properties) -> Result:
    make.client("s3").put_bucket_policy(Bucket=p.take("Bucket"), Policy=json.dumps(p.plain("PolicyDocument")))
    return p.take("Bucket"), {}


def _repository(make: Maker, p: Properties) -> Result:
    made = make.client("ecr").create_repository(
        repositoryName=make.name,
        encryptionConfiguration={"encryptionType": p.take("EncryptionConfiguration").take("EncryptionType")},
        imageScanningConfiguration={"scanOnPush": p.take("ImageScanningConfiguration").take("ScanOnPush")},
        imageTagMutability=p.take("ImageTagMutability"),
        tags=p.plain("Tags"),
    )["repository"]
    # Only for the day it is deleted.
    p.take("EmptyOnDelete")
    return make.name, {"RepositoryUri": made["repositoryUri"], "Arn": made["repositoryArn"]}


def _file_system(make: Maker, p: Properties) -> Result:
    names = ("Encrypted", "KmsKeyId", "PerformanceMode", "ThroughputMode")
    made = make.client("efs").create_file_system(
        CreationToken=make.name, Tags=p.plain("FileSystemTags"), **{name: p.take(name) for name in names}
    )
    if "FileSystemPolicy" in p.values:
        policy = json.dumps(p.plain("FileSystemPolicy"))
        make.client("efs").put_file_system_policy(FileSystemId=made["FileSystemId"], Policy=policy)
    return made["FileSystemId"], {"Arn": made["FileSystemArn"]}


def _mount_target(make: Maker, p: Properties) -> Result:
    names = ("FileSystemId", "SubnetId", "SecurityGroups")
    made = make.client("efs").create_mount_target(**{name: p.take(name) for name in names})
    return made["MountTargetId"], {}


def _access_point(make: Maker, p: Properties) -> Result:
    user = {name: int(value) for name, value in p.plain("PosixUser").items()}
    root = p.plain("RootDirectory")
    if "CreationInfo" in root:
        info = root["CreationInfo"]
        owner = {name: int(info[name]) for name in ("OwnerUid", "OwnerGid")}
        root = root | {"CreationInfo": owner | {"Permissions": info["Permissions"]}}
    made = make.client("efs").create_access_point(
        ClientToken=make.name[:64],
        FileSystemId=p.take("FileSystemId"),
        PosixUser=user,
        RootDirectory=root,
        Tags=p.plain("AccessPointTags"),
    )
    return made["AccessPointId"], {"Arn": made["AccessPointArn"]}


MAKERS: dict[str, Callable[[Maker, Properties], Result]] = {
    "AWS::ECR::Repository": _repository,
    "AWS::EFS::AccessPoint": _access_point,
    "AWS::EFS::FileSystem": _file_system,
    "AWS::EFS::MountTarget": _mount_target,
    "AWS::KMS::Alias": _alias,
    "AWS::KMS::Key": _key,
    "AWS::S3::Bucket": _bucket,
    "AWS::S3::BucketPolicy": _bucket_policy,
}
