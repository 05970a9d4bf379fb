"""What moto may answer: operations, their parameters, and the filters in them. What is not here, the fake fails on.

Add an entry only after looking at what moto does with it.
"""

from __future__ import annotations

from tests.fake_aws.calls import Call

_TAGGED_EC2 = {"TagSpecifications"}

MOTO: dict[str, dict[str, set[str]]] = {
    "ec2": {
        "AllocateAddress": {"Domain", *_TAGGED_EC2},
        "AssociateRouteTable": {"RouteTableId", "SubnetId"},
        "AttachInternetGateway": {"InternetGatewayId", "VpcId"},
        "AuthorizeSecurityGroupEgress": {"GroupId", "IpPermissions"},
        "AuthorizeSecurityGroupIngress": {"GroupId", "IpPermissions"},
        "CreateInternetGateway": _TAGGED_EC2,
        "CreateKeyPair": {"KeyName"},
        "CreateLaunchTemplate": {"LaunchTemplateName", "LaunchTemplateData", *_TAGGED_EC2},
        "CreateNatGateway": {"AllocationId", "SubnetId", *_TAGGED_EC2},
        "CreateRoute": {"RouteTableId", "DestinationCidrBlock", "GatewayId", "NatGatewayId"},
        "CreateRouteTable": {"VpcId", *_TAGGED_EC2},
        "CreateSecurityGroup": {"GroupName", "Description", "VpcId", *_TAGGED_EC2},
        "CreateSubnet": {"VpcId", "AvailabilityZone", "CidrBlock", *_TAGGED_EC2},
        "CreateLaunchTemplateVersion": {"LaunchTemplateId", "LaunchTemplateData"},
        "CreateTags": {"Resources", "Tags"},
        "CreateVolume": {"AvailabilityZone", "Size", "VolumeType", *_TAGGED_EC2},
        "CreateVpc": {"CidrBlock", *_TAGGED_EC2},
        "CreateVpcEndpoint": {"VpcId", "VpcEndpointType", "ServiceName", "RouteTableIds", *_TAGGED_EC2},
        "DeleteInternetGateway": {"InternetGatewayId"},
        "DeleteLaunchTemplate": {"LaunchTemplateId"},
        "DeleteNatGateway": {"NatGatewayId"},
        "DeleteRoute": {"RouteTableId", "DestinationCidrBlock"},
        "DeleteRouteTable": {"RouteTableId"},
        "DeleteSecurityGroup": {"GroupId"},
        "DeleteSubnet": {"SubnetId"},
        "DeleteVolume": {"VolumeId"},
        "DeleteVpc": {"VpcId"},
        "DeleteVpcEndpoints": {"VpcEndpointIds"},
        "DescribeAddresses": {"Filters"},
        "DescribeAvailabilityZones": set(),
        "DescribeInstances": {"Filters"},
        "DescribeInstanceTypeOfferings": {"LocationType", "Filters"},
        "DescribeInstanceTypes": {"InstanceTypes", "Filters"},
        "DescribeInternetGateways": set(),
        "DescribeKeyPairs": {"KeyNames"},
        "DescribeLaunchTemplateVersions": {"LaunchTemplateId", "Versions"},
        "DescribeNatGateways": {"Filter"},
        "DescribeRegions": {"AllRegions"},
        "DescribeSecurityGroups": {"Filters"},
        "DescribeSubnets": {"SubnetIds"},
        "DescribeVolumes": {"Filters"},
        "DescribeVpcEndpoints": {"Filters"},
        "DescribeVpcs": {"VpcIds", "Filters"},
        "DetachInternetGateway": {"InternetGatewayId", "VpcId"},
        "DisassociateRouteTable": {"AssociationId"},
        "ModifySubnetAttribute": {"SubnetId", "MapPublicIpOnLaunch"},
        "ModifyVpcAttribute": {"VpcId", "EnableDnsHostnames", "EnableDnsSupport"},
        "ReleaseAddress": {"AllocationId"},
        "RevokeSecurityGroupEgress": {"GroupId", "IpPermissions"},
        "RevokeSecurityGroupIngress": {"GroupId", "IpPermissions"},
        "RunInstances": {
            "ImageId",
            "InstanceType",
            "MinCount",
            "MaxCount",
            "SubnetId",
            "BlockDeviceMappings",
            "InstanceMarketOptions",
            "IamInstanceProfile",
            "MetadataOptions",
            "SecurityGroupIds",
            *_TAGGED_EC2,
        },
        "TerminateInstances": {"InstanceIds"},
    },
    "ecr": {
        "CreateRepository": {
            "repositoryName",
            "tags",
            "imageTagMutability",
            "imageScanningConfiguration",
            "encryptionConfiguration",
        },
        "DeleteRepository": {"repositoryName", "force"},
        "DescribeRepositories": {"repositoryNames"},
        "BatchGetImage": {"repositoryName", "imageIds"},
        "DescribeImages": {"repositoryName", "imageIds"},
        "GetAuthorizationToken": set(),
        "ListTagsForResource": {"resourceArn"},
        "TagResource": {"resourceArn", "tags"},
        "PutImage": {"repositoryName", "imageManifest", "imageTag"},
    },
    "efs": {
        "CreateAccessPoint": {"FileSystemId", "PosixUser", "RootDirectory", "Tags"},
        "CreateFileSystem": {"CreationToken", "Encrypted", "KmsKeyId", "PerformanceMode", "ThroughputMode", "Tags"},
        "CreateMountTarget": {"FileSystemId", "SubnetId", "SecurityGroups"},
        "DeleteAccessPoint": {"AccessPointId"},
        "DeleteFileSystem": {"FileSystemId"},
        "DeleteMountTarget": {"MountTargetId"},
        "DescribeAccessPoints": set(),
        "DescribeFileSystems": {"FileSystemId"},
        "PutFileSystemPolicy": {"FileSystemId", "Policy"},
        "TagResource": {"ResourceId", "Tags"},
        "DescribeMountTargets": {"FileSystemId"},
    },
    "iam": {
        "AddRoleToInstanceProfile": {"InstanceProfileName", "RoleName"},
        "CreateInstanceProfile": {"InstanceProfileName"},
        "DeleteInstanceProfile": {"InstanceProfileName"},
        "RemoveRoleFromInstanceProfile": {"InstanceProfileName", "RoleName"},
        "CreatePolicy": {"PolicyName", "PolicyDocument", "Description", "Tags"},
        "CreatePolicyVersion": {"PolicyArn", "PolicyDocument", "SetAsDefault"},
        "CreateRole": {"RoleName", "AssumeRolePolicyDocument", "PermissionsBoundary", "Tags"},
        "DeletePolicy": {"PolicyArn"},
        "DeleteRolePermissionsBoundary": {"RoleName"},
        "GetPolicy": {"PolicyArn"},
        "GetPolicyVersion": {"PolicyArn", "VersionId"},
        "PutRolePermissionsBoundary": {"RoleName", "PermissionsBoundary"},
        "UpdateAssumeRolePolicy": {"RoleName", "PolicyDocument"},
        "DeleteRole": {"RoleName"},
        "DeleteRolePolicy": {"RoleName", "PolicyName"},
        "PutRolePolicy": {"RoleName", "PolicyName", "PolicyDocument"},
    },
    "kms": {
        "CreateAlias": {"AliasName", "TargetKeyId"},
        "CreateKey": {"Description", "Policy", "Tags", "KeySpec", "KeyUsage"},
        "DeleteAlias": {"AliasName"},
        "DescribeKey": {"KeyId"},
        "DisableKey": {"KeyId"},
        "EnableKeyRotation": {"KeyId"},
        "GetKeyPolicy": {"KeyId", "PolicyName"},
        "TagResource": {"KeyId", "Tags"},
        "ScheduleKeyDeletion": {"KeyId", "PendingWindowInDays"},
    },
    "logs": {
        "CreateLogGroup": {"logGroupName", "kmsKeyId", "tags"},
        "DeleteLogGroup": {"logGroupName"},
        "DescribeLogGroups": {"logGroupNamePrefix"},
        "PutRetentionPolicy": {"logGroupName", "retentionInDays"},
    },
    "s3": {
        "CreateBucket": {"Bucket", "CreateBucketConfiguration", "ObjectOwnership"},
        "AbortMultipartUpload": {"Bucket", "Key", "UploadId"},
        "CreateMultipartUpload": {"Bucket", "Key"},
        "DeleteBucket": {"Bucket"},
        "DeleteObject": {"Bucket", "Key"},
        "DeleteObjects": {"Bucket", "Delete"},
        "CompleteMultipartUpload": {"Bucket", "Key", "UploadId", "MultipartUpload"},
        "GetBucketEncryption": {"Bucket"},
        "GetBucketTagging": {"Bucket"},
        "GetObject": {"Bucket", "IfMatch", "Key", "Range"},
        "ListObjectsV2": {"Bucket", "Prefix"},
        "ListBuckets": {"Prefix", "BucketRegion", "MaxBuckets"},
        "ListMultipartUploads": {"Bucket"},
        "ListObjectVersions": {"Bucket"},
        "PutBucketEncryption": {"Bucket", "ServerSideEncryptionConfiguration"},
        "PutBucketLifecycleConfiguration": {"Bucket", "LifecycleConfiguration"},
        "PutBucketTagging": {"Bucket", "Tagging"},
        "PutBucketVersioning": {"Bucket", "VersioningConfiguration"},
        "PutObject": {"Bucket", "Key", "Body"},
        "UploadPart": {"Bucket", "Key", "UploadId", "PartNumber", "Body"},
        "PutPublicAccessBlock": {"Bucket", "PublicAccessBlockConfiguration"},
    },
    "ssm": {"GetParameters": {"Names"}},
}

# Sent by botocore itself, whatever the caller asks.
_ALWAYS = {
    "ChecksumAlgorithm",
    "ChecksumMode",
    "ClientToken",
    "ContentLength",
    "ContentMD5",
    "ContentType",
    "ContinuationToken",
    "EncodingType",
    "KeyMarker",
    "UploadIdMarker",
    "VersionIdMarker",
    "MaxResults",
    "NextToken",
    "Marker",
    "MaxItems",
    "limit",
    "nextToken",
}
_FILTERS = {
    "tag:GuardDutyManaged",
    "instance-type",
    "instance-state-name",
    "tag-key",
    "tag:eks:cluster-name",
    "tag:umiak:cluster",
    "vpc-id",
}


def objection(call: Call) -> str | None:
    """Why moto may not answer this, or None."""
    operations = MOTO.get(call.service, {})
    if call.operation not in operations:
        return f"{call} is not modelled"
    unknown = set(call.params) - operations[call.operation] - _ALWAYS
    if unknown:
        return f"{call}: parameters that are not modelled: {', '.join(sorted(unknown))}"
    names = {entry["Name"] for entry in call.params.get("Filters", call.params.get("Filter", []))}
    if names - _FILTERS:
        return f"{call}: filters that are not modelled: {', '.join(sorted(names - _FILTERS))}"
    return None
