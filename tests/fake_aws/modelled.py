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
        "CreateVpc": {"CidrBlock", *_TAGGED_EC2},
        "CreateVpcEndpoint": {"VpcId", "VpcEndpointType", "ServiceName", "RouteTableIds", *_TAGGED_EC2},
        "DescribeAddresses": set(),
        "DescribeAvailabilityZones": set(),
        "DescribeInstances": {"Filters"},
        "DescribeInstanceTypeOfferings": {"LocationType", "Filters"},
        "DescribeInstanceTypes": {"InstanceTypes", "Filters"},
        "DescribeInternetGateways": set(),
        "DescribeKeyPairs": {"KeyNames"},
        "DescribeLaunchTemplateVersions": {"LaunchTemplateId", "Versions"},
        "DescribeNatGateways": {"Filter"},
        "DescribeRegions": {"AllRegions"},
        "DescribeSubnets": {"SubnetIds"},
        "DescribeVolumes": {"Filters"},
        "DescribeVpcs": {"VpcIds"},
        "ModifySubnetAttribute": {"SubnetId", "MapPublicIpOnLaunch"},
        "ModifyVpcAttribute": {"VpcId", "EnableDnsHostnames", "EnableDnsSupport"},
        "RevokeSecurityGroupEgress": {"GroupId", "IpPermissions"},
        "RunInstances": {
            "ImageId",
            "InstanceType",
            "MinCount",
            "MaxCount",
            "SubnetId",
            "BlockDeviceMappings",
            "InstanceMarketOptions",
            *_TAGGED_EC2,
        },
    },
    "ecr": {
        "CreateRepository": {
            "repositoryName",
            "tags",
            "imageTagMutability",
            "imageScanningConfiguration",
            "encryptionConfiguration",
        }
    },
    "efs": {
        "CreateAccessPoint": {"FileSystemId", "PosixUser", "RootDirectory", "Tags"},
        "CreateFileSystem": {"CreationToken", "Encrypted", "KmsKeyId", "PerformanceMode", "ThroughputMode", "Tags"},
        "CreateMountTarget": {"FileSystemId", "SubnetId", "SecurityGroups"},
        "DescribeFileSystems": {"FileSystemId"},
    },
    "iam": {
        "CreateRole": {"RoleName", "AssumeRolePolicyDocument", "Tags"},
        "PutRolePolicy": {"RoleName", "PolicyName", "PolicyDocument"},
    },
    "kms": {
        "CreateAlias": {"AliasName", "TargetKeyId"},
        "CreateKey": {"Description", "Policy", "Tags", "KeySpec", "KeyUsage"},
        "DescribeKey": {"KeyId"},
        "DisableKey": {"KeyId"},
        "EnableKeyRotation": {"KeyId"},
        "GetKeyPolicy": {"KeyId", "PolicyName"},
    },
    "logs": {
        "CreateLogGroup": {"logGroupName", "kmsKeyId", "tags"},
        "DescribeLogGroups": {"logGroupNamePrefix"},
        "PutRetentionPolicy": {"logGroupName", "retentionInDays"},
    },
    "s3": {
        "CreateBucket": {"Bucket", "CreateBucketConfiguration", "ObjectOwnership"},
        "PutBucketEncryption": {"Bucket", "ServerSideEncryptionConfiguration"},
        "PutBucketLifecycleConfiguration": {"Bucket", "LifecycleConfiguration"},
        "PutBucketPolicy": {"Bucket", "Policy"},
        "PutBucketTagging": {"Bucket", "Tagging"},
        "PutBucketVersioning": {"Bucket", "VersioningConfiguration"},
        "PutPublicAccessBlock": {"Bucket", "PublicAccessBlockConfiguration"},
    },
    "ssm": {"GetParameters": {"Names"}},
}

# Sent by botocore itself, whatever the caller asks.
_ALWAYS = {
    "ChecksumAlgorithm",
    "ClientToken",
    "ContentMD5",
    "MaxResults",
    "NextToken",
    "Marker",
    "MaxItems",
    "limit",
    "nextToken",
}
_FILTERS = {"instance-type", "instance-state-name", "tag:eks:cluster-name", "tag:umiak:cluster"}


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
