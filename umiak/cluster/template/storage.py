"""What holds data: the key, the bucket, the image repository, the shared file system and its door."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from troposphere import GetAtt, Ref, Sub, ec2, ecr, efs, kms, s3

from umiak.cluster.template.network import NetworkParts
from umiak.cluster.template.parts import Parts, account_arn, document, explain, statement
from umiak.spec.cluster import USER_TAG

NFS = 2049
SSH = 22


@dataclass(frozen=True)
class StorageParts:
    key_arn: Any
    bucket_arn: Any
    objects_arn: Any
    node_group: Any
    mounts: list[str]
    volume_arn: Any
    access_arn: Any


# All pods are this user on the volume, whatever they run as; the image's own is the same.
USER = "1000"
HOME = "/umiak"
MOUNT, WRITE, ROOT = (f"elasticfilesystem:Client{what}" for what in ("Mount", "Write", "RootAccess"))


def add(parts: Parts, net: NetworkParts) -> StorageParts:
    key_arn = parts.spec.kms_key_arn or _key(parts)
    bucket, bucket_arn, objects_arn = _bucket(parts, key_arn)
    node_group = _node_group(parts, net)
    volume, access, mounts = _volume(parts, net, key_arn, node_group)
    parts.outputs |= {
        "Bucket": (bucket, "Data goes in here; pods of the cluster read it"),
        "ImageRepository": (_images(parts), "Where to push the training image"),
        "VolumeHandle": (Sub(f"{volume}::${{{access.title}}}"), "volumeHandle of the PersistentVolume efsvol"),
        "KeyArn": (key_arn, "Encrypts Kubernetes secrets, EFS, S3 and logs"),
    }
    arn = account_arn("elasticfilesystem", f"file-system/{volume}")
    return StorageParts(key_arn, bucket_arn, objects_arn, node_group, mounts, arn, GetAtt(access, "Arn"))


def volume_policy(as_root: bool = False) -> dict[str, Any]:
    """Only with TLS, only through an access point, and only for who has an IAM policy that allows it: with a policy of its own a
    file system lets nobody in by default. Which access point, the nodes' role says: named here, each would wait for the other.
    """

    def deny(sid: str, actions: list[str], **condition: Any) -> dict[str, Any]:
        optional = {"Condition": condition} if condition else {}
        return {"Sid": sid, "Effect": "Deny", "Principal": {"AWS": "*"}, "Action": actions} | optional

    every = [MOUNT, WRITE, ROOT]
    statements = [
        deny("TlsOnly", every, Bool={"aws:SecureTransport": "false"}),
        deny("AccessPointOnly", every, Null={"elasticfilesystem:AccessPointArn": "true"}),
    ]
    return document(*statements, *([] if as_root else [deny("NobodyIsRoot", [ROOT])]))


def _images(parts: Parts) -> Any:
    """The repository's URI."""
    if name := parts.spec.existing.images:
        return Sub(f"${{AWS::AccountId}}.dkr.ecr.${{AWS::Region}}.${{AWS::URLSuffix}}/{name}")
    images = parts.keep_or_delete(
        ecr.Repository(
            "Images",
            EmptyOnDelete=parts.spec.destroy.images == "delete",
            EncryptionConfiguration=ecr.EncryptionConfiguration(EncryptionType="AES256"),
            ImageScanningConfiguration=ecr.ImageScanningConfiguration(ScanOnPush=True),
            ImageTagMutability="MUTABLE",
            Tags=parts.data_tags("images"),
        ),
        parts.spec.destroy.images,
    )
    return GetAtt(images, "RepositoryUri")


def log_group_name(cluster: str) -> str:
    """EKS writes here and nowhere else."""
    return f"/aws/eks/{cluster}/cluster"


def alias_name(cluster: str) -> str:
    return f"alias/umiak-{cluster}"


def _key(parts: Parts) -> Any:
    name = parts.spec.name
    key = kms.Key(
        "Key",
        Description=f"umiak cluster {name}",
        EnableKeyRotation=True,
        PendingWindowInDays=7,
        KeyPolicy=document(
            statement(
                "AccountDecidesByIam",
                "Allow",
                "kms:*",
                "*",
                Principal={"AWS": Sub("arn:${AWS::Partition}:iam::${AWS::AccountId}:root")},
            ),
            statement(
                "LogsOfThisCluster",
                "Allow",
                ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"],
                "*",
                Principal={"Service": Sub("logs.${AWS::Region}.${AWS::URLSuffix}")},
                Condition={
                    "ArnEquals": {
                        "kms:EncryptionContext:aws:logs:arn": account_arn("logs", f"log-group:{log_group_name(name)}")
                    }
                },
            ),
        ),
        Tags=parts.data_tags("key"),
    )
    explain(
        key,
        AccountDecidesByIam="In a key's own policy * is that key; without the account's root a key can become unmanageable",
        LogsOfThisCluster="In a key's own policy * is that key; CloudWatch Logs documents these families of actions",
    )
    parts.keep_or_delete(key, parts.spec.destroy.key)
    parts.add(kms.Alias("KeyAlias", AliasName=alias_name(name), TargetKeyId=Ref(key)))
    return GetAtt(key, "Arn")


def _bucket(parts: Parts, key_arn: Any) -> tuple[Any, Any, Any]:
    """(name, ARN, ARN of everything in it)."""
    if name := parts.spec.existing.bucket:
        # Its policy is its owner's: a kept bucket has the one below from its own stack.
        arn = f"arn:${{AWS::Partition}}:s3:::{name}"
        return name, Sub(arn), Sub(f"{arn}/*")
    bucket = parts.keep_or_delete(
        s3.Bucket(
            "Bucket",
            BucketEncryption=s3.BucketEncryption(
                ServerSideEncryptionConfiguration=[
                    s3.ServerSideEncryptionRule(
                        BucketKeyEnabled=True,
                        ServerSideEncryptionByDefault=s3.ServerSideEncryptionByDefault(
                            SSEAlgorithm="aws:kms", KMSMasterKeyID=key_arn
                        ),
                    )
                ]
            ),
            LifecycleConfiguration=s3.LifecycleConfiguration(
                Rules=[
                    s3.LifecycleRule(
                        Id="drop-unfinished-uploads",
                        Status="Enabled",
                        AbortIncompleteMultipartUpload=s3.AbortIncompleteMultipartUpload(DaysAfterInitiation=7),
                    )
                ]
            ),
            OwnershipControls=s3.OwnershipControls(
                Rules=[s3.OwnershipControlsRule(ObjectOwnership="BucketOwnerEnforced")]
            ),
            PublicAccessBlockConfiguration=s3.PublicAccessBlockConfiguration(
                BlockPublicAcls=True, BlockPublicPolicy=True, IgnorePublicAcls=True, RestrictPublicBuckets=True
            ),
            VersioningConfiguration=s3.VersioningConfiguration(Status="Enabled"),
            Tags=parts.data_tags("bucket"),
        ),
        parts.spec.destroy.bucket,
    )
    policy = s3.BucketPolicy(
        "BucketTlsOnly",
        Bucket=Ref(bucket),
        PolicyDocument=document(
            statement(
                "TlsOnly",
                "Deny",
                "s3:*",
                [GetAtt(bucket, "Arn"), Sub(f"${{{bucket.title}.Arn}}/*")],
                Principal="*",
                Condition={"Bool": {"aws:SecureTransport": "false"}},
            )
        ),
    )
    # A kept bucket keeps its policy: TLS only must not end with the stack.
    parts.keep_or_delete(
        explain(policy, TlsOnly="A denial must cover everybody and everything that comes without TLS"),
        parts.spec.destroy.bucket,
    )
    return Ref(bucket), GetAtt(bucket, "Arn"), Sub(f"${{{bucket.title}.Arn}}/*")


def _node_group(parts: Parts, net: NetworkParts) -> Any:
    """A group that marks a machine as a node. It opens nothing outward: the cluster's own group, beside it, does."""
    ssh = {}
    if parts.spec.nodes.key_name:
        ssh["SecurityGroupIngress"] = [
            ec2.SecurityGroupRule(
                IpProtocol="tcp",
                FromPort=SSH,
                ToPort=SSH,
                CidrIp=parts.spec.network.cidr,
                Description="SSH from the VPC",
            )
        ]
    return parts.add(
        ec2.SecurityGroup(
            "NodeSecurityGroup",
            GroupDescription=f"Nodes of {parts.spec.name}",
            VpcId=Ref(net.vpc),
            SecurityGroupEgress=[_nothing()],
            Tags=parts.tags("nodes"),
            **ssh,
        )
    )


def _nothing() -> ec2.SecurityGroupRule:
    # An empty list means "allow all"; a rule to the loopback address is how CloudFormation writes "none".
    return ec2.SecurityGroupRule(IpProtocol="-1", CidrIp="127.0.0.1/32", Description="Nothing")


def _file_system(parts: Parts, key_arn: Any) -> tuple[Any, str]:
    """(its id, the same as text inside Fn::Sub)."""
    if name := parts.spec.existing.volume:
        return name, name
    volume = parts.keep_or_delete(
        efs.FileSystem(
            "Volume",
            Encrypted=True,
            KmsKeyId=key_arn,
            PerformanceMode="generalPurpose",
            ThroughputMode="elastic",
            FileSystemTags=parts.data_tags("volume", **({} if parts.old_volume else {USER_TAG: USER})),
            **({} if parts.old_volume else {"FileSystemPolicy": volume_policy()}),
        ),
        parts.spec.destroy.volume,
    )
    return Ref(volume), f"${{{volume.title}}}"


def _volume(parts: Parts, net: NetworkParts, key_arn: Any, node_group: Any) -> tuple[str, Any, list[str]]:
    """(the file system as text inside Fn::Sub, its access point, titles of its mount targets)."""
    volume, text = _file_system(parts, key_arn)
    group = parts.add(
        ec2.SecurityGroup(
            "VolumeSecurityGroup",
            GroupDescription=f"Shared volume of {parts.spec.name}",
            VpcId=Ref(net.vpc),
            SecurityGroupEgress=[_nothing()],
            Tags=parts.tags("volume"),
        )
    )
    parts.add(
        ec2.SecurityGroupIngress(
            "VolumeFromNodes",
            GroupId=GetAtt(group, "GroupId"),
            IpProtocol="tcp",
            FromPort=NFS,
            ToPort=NFS,
            SourceSecurityGroupId=GetAtt(node_group, "GroupId"),
            Description="NFS from the nodes",
        )
    )
    mounts = [
        parts.add(
            efs.MountTarget(
                f"VolumeMount{number}",
                FileSystemId=volume,
                SubnetId=Ref(subnet),
                SecurityGroups=[GetAtt(group, "GroupId")],
            )
        ).title
        for number, subnet in enumerate(net.private_subnets, 1)
    ]
    # Pods that run as different users are one on the file system, and share one tree.
    user, root = (
        USER,
        efs.RootDirectory(Path=HOME, CreationInfo=efs.CreationInfo(OwnerUid=USER, OwnerGid=USER, Permissions="0755")),
    )
    if parts.old_volume or parts.spec.existing.written_as_root:
        user, root = "0", efs.RootDirectory(Path="/")
    access = parts.add(
        efs.AccessPoint(
            "VolumeAccess",
            FileSystemId=volume,
            PosixUser=efs.PosixUser(Uid=user, Gid=user),
            RootDirectory=root,
            AccessPointTags=parts.tags("volume"),
        )
    )
    return text, access, mounts
