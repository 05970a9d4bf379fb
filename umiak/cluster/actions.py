"""Which IAM actions are needed: by each AWS call this package makes, looking or changing, by daily work with a cluster, and by
CloudFormation for each resource type.

CloudFormation acts with the permissions of whoever deploys the stack. What it does for a type is what the type's own
registry schema declares, less the features this template does not use; a test compares the two.
Where the actions are allowed is `umiak.cluster.policy`.
"""

from __future__ import annotations


def _actions(**services: str) -> tuple[str, ...]:
    return tuple(f"{service}:{name}" for service, names in services.items() for name in names.split())


# The prefix of IAM actions, where it is not the name of the boto3 client.
_PREFIXES = {
    "efs": "elasticfilesystem",
    "elb": "elasticloadbalancing",
    "elbv2": "elasticloadbalancing",
    "resourcegroupstaggingapi": "tag",
    "service-quotas": "servicequotas",
}
# Operations that IAM calls something else.
_NAMES = {
    ("s3", "GetBucketEncryption"): "s3:GetEncryptionConfiguration",
    ("s3", "ListBuckets"): "s3:ListAllMyBuckets",
    ("s3", "DeleteObjects"): "s3:DeleteObjectVersion",
    ("s3", "ListMultipartUploads"): "s3:ListBucketMultipartUploads",
    ("s3", "ListObjectVersions"): "s3:ListBucketVersions",
}


def _calls(operations: dict[str, str]) -> dict[tuple[str, str], str]:
    """(boto3 client, operation) → the action it is allowed by."""
    return {
        (service, operation): _NAMES.get((service, operation), f"{_PREFIXES.get(service, service)}:{operation}")
        for service, names in operations.items()
        for operation in names.split()
    }


# These only look.
CALLS: dict[tuple[str, str], str] = _calls(
    {
        "cloudformation": (
            "DescribeChangeSet DescribeEvents DescribeStackEvents DescribeStackResources DescribeStacks "
            "GetTemplate GetTemplateSummary ListStacks ValidateTemplate"
        ),
        "ec2": (
            "DescribeAddresses DescribeAvailabilityZones DescribeInstanceTypeOfferings DescribeInstanceTypes "
            "DescribeInstances DescribeInternetGateways DescribeKeyPairs DescribeNatGateways "
            "DescribeNetworkInterfaces DescribeRegions DescribeSecurityGroups DescribeSpotPriceHistory "
            "DescribeSubnets DescribeVolumes DescribeVpcEndpoints DescribeVpcs"
        ),
        "ecr": "DescribeRepositories ListTagsForResource",
        "efs": "DescribeFileSystems DescribeMountTargets",
        "eks": (
            "DescribeAddon DescribeAddonVersions DescribeCluster DescribeClusterVersions DescribeNodegroup "
            "ListClusters ListNodegroups"
        ),
        "elb": "DescribeLoadBalancers DescribeTags",
        "elbv2": "DescribeLoadBalancers DescribeTags",
        "iam": "GetPolicy GetPolicyVersion GetRole SimulatePrincipalPolicy",
        "kms": "DescribeKey GetKeyPolicy",
        "logs": "DescribeLogGroups",
        "pricing": "GetProducts",
        "resourcegroupstaggingapi": "GetResources",
        "s3": "GetBucketEncryption GetBucketTagging ListBuckets",
        "service-quotas": "GetAWSDefaultServiceQuota GetServiceQuota",
        "ssm": "GetParameters",
        "sts": "GetCallerIdentity",
    }
)

# And these change something, for `up` and `destroy`.
CHANGES: dict[tuple[str, str], str] = _calls(
    {
        "cloudformation": (
            "ContinueUpdateRollback CreateChangeSet DeleteChangeSet DeleteStack ExecuteChangeSet "
            "UpdateTerminationProtection"
        ),
        "ec2": "DeleteNetworkInterface DeleteSecurityGroup DeleteVpcEndpoints DeleteVolume",
        "ecr": "DeleteRepository",
        "efs": "DeleteFileSystem PutFileSystemPolicy DeleteMountTarget",
        "eks": "DeleteNodegroup UpdateAddon UpdateNodegroupVersion UpdateClusterConfig",
        "elb": "DeleteLoadBalancer",
        "elbv2": "DeleteLoadBalancer",
        "kms": "ScheduleKeyDeletion",
        "logs": "DeleteLogGroup",
        "s3": "AbortMultipartUpload DeleteBucket DeleteObjects ListMultipartUploads ListObjectVersions",
    }
)

# What only an administrator may do, and no policy of ours allows: `up` and `destroy` try, and say whom to ask.
ADMINISTERS: dict[tuple[str, str], str] = _calls(
    {
        "iam": "CreatePolicy DeletePolicy",
    }
)

# Daily work with a cluster that exists. These umiak may call itself; they only look, or get a password for the registry.
USES: dict[tuple[str, str], str] = _calls(
    {
        "cloudformation": "DescribeStacks GetTemplateSummary",
        "ecr": "DescribeImages DescribeRepositories GetAuthorizationToken",
        "eks": "DescribeAddon DescribeAddonVersions DescribeCluster",
        "ssm": "StartSession",
        "sts": "GetCallerIdentity",
    }
)

# And these are behind what a user runs: a push to the registry and a pull from it (ECR user guide, "IAM permissions for pushing
# an image"), uploads to the bucket with the AWS CLI, of any size, and reading them back.
DAILY: tuple[str, ...] = _actions(
    ecr=(
        "BatchCheckLayerAvailability BatchGetImage CompleteLayerUpload GetDownloadUrlForLayer InitiateLayerUpload PutImage "
        "UploadLayerPart"
    ),
    kms="Decrypt GenerateDataKey",
    s3="AbortMultipartUpload GetBucketLocation GetObject ListBucket ListMultipartUploadParts PutObject",
)

# What deploying by hand, with `aws cloudformation deploy` and `delete-stack`, needs for the stack itself.
STACK: tuple[str, ...] = _actions(
    cloudformation=(
        "CreateChangeSet DeleteChangeSet DeleteStack DescribeChangeSet DescribeStackEvents DescribeStacks "
        "ExecuteChangeSet GetTemplateSummary UpdateTerminationProtection"
    )
)

TYPES: dict[str, tuple[str, ...]] = {
    "AWS::EC2::EIP": _actions(
        ec2="AllocateAddress CreateTags DeleteTags DescribeAddresses DisassociateAddress ReleaseAddress"
    ),
    "AWS::EC2::Instance": _actions(
        ec2="CreateTags DeleteTags DescribeIamInstanceProfileAssociations DescribeInstanceAttribute "
        "DescribeInstanceCreditSpecifications DescribeInstances DescribeKeyPairs DescribeLaunchTemplateVersions "
        "DescribeLaunchTemplates DescribeNetworkInterfaces DescribeSecurityGroups DescribeSubnets DescribeVolumes DescribeVpcs "
        "ModifyInstanceMetadataOptions RunInstances TerminateInstances",
        iam="PassRole",
    ),
    "AWS::EC2::InternetGateway": _actions(
        ec2="CreateInternetGateway CreateTags DeleteInternetGateway DeleteTags DescribeInternetGateways"
    ),
    "AWS::EC2::LaunchTemplate": _actions(
        ec2="CreateLaunchTemplate CreateLaunchTemplateVersion CreateTags DeleteLaunchTemplate DeleteTags "
        "DescribeLaunchTemplates"
    ),
    "AWS::EC2::NatGateway": _actions(ec2="CreateNatGateway CreateTags DeleteNatGateway DeleteTags DescribeNatGateways"),
    "AWS::EC2::Route": _actions(
        ec2="CreateRoute DeleteRoute DescribeNetworkInterfaces DescribeRouteTables ReplaceRoute"
    ),
    "AWS::EC2::RouteTable": _actions(ec2="CreateRouteTable CreateTags DeleteRouteTable DeleteTags DescribeRouteTables"),
    "AWS::EC2::SecurityGroup": _actions(
        ec2="AuthorizeSecurityGroupEgress AuthorizeSecurityGroupIngress CreateSecurityGroup CreateTags "
        "DeleteSecurityGroup DeleteTags DescribeInstances DescribeSecurityGroups RevokeSecurityGroupEgress "
        "RevokeSecurityGroupIngress UpdateSecurityGroupRuleDescriptionsEgress UpdateSecurityGroupRuleDescriptionsIngress"
    ),
    "AWS::EC2::SecurityGroupIngress": _actions(
        ec2="AuthorizeSecurityGroupIngress DescribeSecurityGroupRules DescribeSecurityGroups RevokeSecurityGroupIngress "
        "UpdateSecurityGroupRuleDescriptionsIngress"
    ),
    "AWS::EC2::Subnet": _actions(
        ec2="CreateSubnet CreateTags DeleteSubnet DeleteTags DescribeNetworkAcls DescribeSubnets ModifySubnetAttribute"
    ),
    "AWS::EC2::SubnetRouteTableAssociation": _actions(
        ec2="AssociateRouteTable DescribeRouteTables DescribeSubnets DisassociateRouteTable ReplaceRouteTableAssociation"
    ),
    "AWS::EC2::VPC": _actions(
        ec2="CreateTags CreateVpc DeleteTags DeleteVpc DescribeNetworkAcls DescribeSecurityGroups DescribeVpcAttribute "
        "DescribeVpcEncryptionControls DescribeVpcs ModifyVpcAttribute"
    ),
    "AWS::EC2::VPCEndpoint": _actions(
        ec2="CreateTags CreateVpcEndpoint DeleteTags DeleteVpcEndpoints DescribeSecurityGroups DescribeSubnets "
        "DescribeVpcEndpoints DescribeVpcs ModifyVpcEndpoint"
    ),
    "AWS::EC2::VPCGatewayAttachment": _actions(
        ec2="AttachInternetGateway DescribeInternetGateways DescribeVpnGateways DetachInternetGateway"
    ),
    "AWS::ECR::Repository": _actions(
        ecr="CreateRepository DeleteRepository DescribeRepositories GetLifecyclePolicy GetRepositoryPolicy "
        "ListTagsForResource PutImageScanningConfiguration PutImageTagMutability TagResource UntagResource"
    ),
    "AWS::EFS::AccessPoint": _actions(
        elasticfilesystem="CreateAccessPoint DeleteAccessPoint DescribeAccessPoints ListTagsForResource TagResource "
        "UntagResource"
    ),
    "AWS::EFS::FileSystem": _actions(
        elasticfilesystem="CreateFileSystem DeleteFileSystem DescribeBackupPolicy DescribeFileSystemPolicy "
        "DescribeFileSystems DescribeLifecycleConfiguration DescribeReplicationConfigurations ListTagsForResource "
        "PutFileSystemPolicy TagResource UntagResource UpdateFileSystem",
        iam="CreateServiceLinkedRole",
        kms="CreateGrant DescribeKey GenerateDataKeyWithoutPlaintext",
    ),
    "AWS::EFS::MountTarget": _actions(
        elasticfilesystem="CreateMountTarget DeleteMountTarget DescribeMountTargetSecurityGroups DescribeMountTargets "
        "ModifyMountTargetSecurityGroups",
        ec2="CreateNetworkInterface DeleteNetworkInterface DescribeNetworkInterfaces DescribeSubnets "
        "ModifyNetworkInterfaceAttribute",
    ),
    "AWS::EKS::AccessEntry": _actions(
        eks="AssociateAccessPolicy CreateAccessEntry DeleteAccessEntry DescribeAccessEntry DisassociateAccessPolicy "
        "ListAssociatedAccessPolicies TagResource UntagResource UpdateAccessEntry"
    ),
    "AWS::EKS::Addon": _actions(
        eks="CreateAddon CreatePodIdentityAssociation DeleteAddon DeletePodIdentityAssociation DescribeAddon "
        "DescribeUpdate TagResource UntagResource UpdateAddon UpdatePodIdentityAssociation",
        iam="GetRole PassRole",
    ),
    "AWS::EKS::Cluster": _actions(
        ec2="DescribeSubnets DescribeVpcs",
        eks="CreateCluster DeleteCluster DescribeCluster DescribeUpdate TagResource UntagResource UpdateClusterConfig "
        "UpdateClusterVersion",
        iam="CreateServiceLinkedRole GetRole ListAttachedRolePolicies PassRole",
        kms="CreateGrant DescribeKey",
    ),
    "AWS::EKS::Nodegroup": _actions(
        ec2="CreateTags DeleteTags DescribeKeyPairs DescribeLaunchTemplateVersions DescribeLaunchTemplates "
        "DescribeRouteTables DescribeSecurityGroups DescribeSubnets DescribeVpcs RunInstances",
        eks="CreateNodegroup DeleteNodegroup DescribeNodegroup DescribeUpdate ListUpdates TagResource UntagResource "
        "UpdateNodegroupConfig UpdateNodegroupVersion",
        iam="CreateServiceLinkedRole GetRole ListAttachedRolePolicies PassRole",
    ),
    "AWS::EKS::PodIdentityAssociation": _actions(
        eks="CreatePodIdentityAssociation DeletePodIdentityAssociation DescribePodIdentityAssociation TagResource "
        "UntagResource UpdatePodIdentityAssociation",
        iam="GetRole PassRole",
    ),
    "AWS::IAM::InstanceProfile": _actions(
        iam="AddRoleToInstanceProfile CreateInstanceProfile DeleteInstanceProfile GetInstanceProfile PassRole "
        "RemoveRoleFromInstanceProfile"
    ),
    "AWS::IAM::Role": _actions(
        iam="AttachRolePolicy CreateRole DeleteRole DeleteRolePolicy DetachRolePolicy GetRole GetRolePolicy "
        "ListAttachedRolePolicies ListRolePolicies PutRolePermissionsBoundary PutRolePolicy TagRole UntagRole"
    ),
    "AWS::KMS::Alias": _actions(kms="CreateAlias DeleteAlias ListAliases UpdateAlias"),
    "AWS::KMS::Key": _actions(
        kms="CreateKey DescribeKey EnableKeyRotation GetKeyPolicy GetKeyRotationStatus ListResourceTags PutKeyPolicy "
        "ScheduleKeyDeletion TagResource UntagResource UpdateKeyDescription"
    ),
    "AWS::Logs::LogGroup": _actions(
        logs="AssociateKmsKey CreateLogGroup DeleteDataProtectionPolicy DeleteLogGroup DeleteRetentionPolicy "
        "DescribeIndexPolicies DescribeLogGroups DescribeResourcePolicies DisassociateKmsKey GetDataProtectionPolicy "
        "ListTagsForResource PutRetentionPolicy TagResource UntagResource"
    ),
    "AWS::S3::Bucket": _actions(
        s3="CreateBucket DeleteBucket GetAccelerateConfiguration GetAnalyticsConfiguration GetBucketAbac GetBucketAcl "
        "GetBucketCORS GetBucketLogging GetBucketMetadataTableConfiguration GetBucketNotification "
        "GetBucketObjectLockConfiguration GetBucketOwnershipControls GetBucketPublicAccessBlock GetBucketTagging "
        "GetBucketVersioning GetBucketWebsite GetEncryptionConfiguration GetIntelligentTieringConfiguration "
        "GetInventoryConfiguration GetLifecycleConfiguration GetMetricsConfiguration GetReplicationConfiguration "
        "ListBucket ListTagsForResource PutBucketOwnershipControls PutBucketPublicAccessBlock PutBucketTagging "
        "PutBucketVersioning PutEncryptionConfiguration PutLifecycleConfiguration TagResource UntagResource"
    ),
    "AWS::S3::BucketPolicy": _actions(s3="DeleteBucketPolicy GetBucketPolicy PutBucketPolicy"),
}
