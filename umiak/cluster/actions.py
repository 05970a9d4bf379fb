"""Which IAM actions are needed: by each AWS call this package makes, looking or changing, by daily work with a cluster, and by
CloudFormation for each resource type.

CloudFormation acts with the permissions of whoever deploys the stack. What it does for a type is what the type's own
registry schema declares, less the features this template does not use; a test compares the two.
Where the actions are allowed is `umiak.cluster.policy`.
"""

from __future__ import annotations


def _actions(**services: str) -> tuple[str, ...]:
    return tuple(f"{service}:{name}" for service, names in services.items() for name in names.split())


# (boto3 client, operation) → the action it is allowed by. These only look.
CALLS: dict[tuple[str, str], str] = {
    ("cloudformation", "DescribeChangeSet"): "cloudformation:DescribeChangeSet",
    ("cloudformation", "DescribeEvents"): "cloudformation:DescribeEvents",
    ("cloudformation", "DescribeStackEvents"): "cloudformation:DescribeStackEvents",
    ("cloudformation", "DescribeStackResources"): "cloudformation:DescribeStackResources",
    ("cloudformation", "DescribeStacks"): "cloudformation:DescribeStacks",
    ("cloudformation", "GetTemplate"): "cloudformation:GetTemplate",
    ("cloudformation", "GetTemplateSummary"): "cloudformation:GetTemplateSummary",
    ("cloudformation", "ListStacks"): "cloudformation:ListStacks",
    ("cloudformation", "ValidateTemplate"): "cloudformation:ValidateTemplate",
    ("ec2", "DescribeAddresses"): "ec2:DescribeAddresses",
    ("ec2", "DescribeAvailabilityZones"): "ec2:DescribeAvailabilityZones",
    ("ec2", "DescribeInstanceTypeOfferings"): "ec2:DescribeInstanceTypeOfferings",
    ("ec2", "DescribeInstanceTypes"): "ec2:DescribeInstanceTypes",
    ("ec2", "DescribeInstances"): "ec2:DescribeInstances",
    ("ec2", "DescribeInternetGateways"): "ec2:DescribeInternetGateways",
    ("ec2", "DescribeKeyPairs"): "ec2:DescribeKeyPairs",
    ("ec2", "DescribeNatGateways"): "ec2:DescribeNatGateways",
    ("ec2", "DescribeNetworkInterfaces"): "ec2:DescribeNetworkInterfaces",
    ("ec2", "DescribeRegions"): "ec2:DescribeRegions",
    ("ec2", "DescribeSecurityGroups"): "ec2:DescribeSecurityGroups",
    ("ec2", "DescribeSpotPriceHistory"): "ec2:DescribeSpotPriceHistory",
    ("ec2", "DescribeSubnets"): "ec2:DescribeSubnets",
    ("ec2", "DescribeVolumes"): "ec2:DescribeVolumes",
    ("ec2", "DescribeVpcEndpoints"): "ec2:DescribeVpcEndpoints",
    ("ec2", "DescribeVpcs"): "ec2:DescribeVpcs",
    ("ecr", "DescribeRepositories"): "ecr:DescribeRepositories",
    ("ecr", "ListTagsForResource"): "ecr:ListTagsForResource",
    ("efs", "DescribeFileSystems"): "elasticfilesystem:DescribeFileSystems",
    ("efs", "DescribeMountTargets"): "elasticfilesystem:DescribeMountTargets",
    ("eks", "DescribeAddon"): "eks:DescribeAddon",
    ("eks", "DescribeAddonVersions"): "eks:DescribeAddonVersions",
    ("eks", "DescribeCluster"): "eks:DescribeCluster",
    ("eks", "DescribeClusterVersions"): "eks:DescribeClusterVersions",
    ("eks", "DescribeNodegroup"): "eks:DescribeNodegroup",
    ("eks", "ListClusters"): "eks:ListClusters",
    ("eks", "ListNodegroups"): "eks:ListNodegroups",
    ("elb", "DescribeLoadBalancers"): "elasticloadbalancing:DescribeLoadBalancers",
    ("elb", "DescribeTags"): "elasticloadbalancing:DescribeTags",
    ("elbv2", "DescribeLoadBalancers"): "elasticloadbalancing:DescribeLoadBalancers",
    ("elbv2", "DescribeTags"): "elasticloadbalancing:DescribeTags",
    ("iam", "GetPolicy"): "iam:GetPolicy",
    ("iam", "GetPolicyVersion"): "iam:GetPolicyVersion",
    ("iam", "GetRole"): "iam:GetRole",
    ("iam", "SimulatePrincipalPolicy"): "iam:SimulatePrincipalPolicy",
    ("kms", "DescribeKey"): "kms:DescribeKey",
    ("kms", "GetKeyPolicy"): "kms:GetKeyPolicy",
    ("logs", "DescribeLogGroups"): "logs:DescribeLogGroups",
    ("pricing", "GetProducts"): "pricing:GetProducts",
    ("resourcegroupstaggingapi", "GetResources"): "tag:GetResources",
    ("s3", "GetBucketEncryption"): "s3:GetEncryptionConfiguration",
    ("s3", "GetBucketTagging"): "s3:GetBucketTagging",
    ("s3", "ListBuckets"): "s3:ListAllMyBuckets",
    ("service-quotas", "GetAWSDefaultServiceQuota"): "servicequotas:GetAWSDefaultServiceQuota",
    ("service-quotas", "GetServiceQuota"): "servicequotas:GetServiceQuota",
    ("ssm", "GetParameters"): "ssm:GetParameters",
    ("sts", "GetCallerIdentity"): "sts:GetCallerIdentity",
}

# And these change something, for `up` and `destroy`.
CHANGES: dict[tuple[str, str], str] = {
    ("cloudformation", "ContinueUpdateRollback"): "cloudformation:ContinueUpdateRollback",
    ("cloudformation", "CreateChangeSet"): "cloudformation:CreateChangeSet",
    ("cloudformation", "DeleteChangeSet"): "cloudformation:DeleteChangeSet",
    ("cloudformation", "DeleteStack"): "cloudformation:DeleteStack",
    ("cloudformation", "ExecuteChangeSet"): "cloudformation:ExecuteChangeSet",
    ("cloudformation", "UpdateTerminationProtection"): "cloudformation:UpdateTerminationProtection",
    ("ec2", "DeleteNetworkInterface"): "ec2:DeleteNetworkInterface",
    ("ec2", "DeleteSecurityGroup"): "ec2:DeleteSecurityGroup",
    ("ec2", "DeleteVpcEndpoints"): "ec2:DeleteVpcEndpoints",
    ("ec2", "DeleteVolume"): "ec2:DeleteVolume",
    ("ecr", "DeleteRepository"): "ecr:DeleteRepository",
    ("efs", "DeleteFileSystem"): "elasticfilesystem:DeleteFileSystem",
    ("efs", "PutFileSystemPolicy"): "elasticfilesystem:PutFileSystemPolicy",
    ("efs", "DeleteMountTarget"): "elasticfilesystem:DeleteMountTarget",
    ("eks", "DeleteNodegroup"): "eks:DeleteNodegroup",
    ("eks", "UpdateAddon"): "eks:UpdateAddon",
    ("eks", "UpdateNodegroupVersion"): "eks:UpdateNodegroupVersion",
    ("eks", "UpdateClusterConfig"): "eks:UpdateClusterConfig",
    ("elb", "DeleteLoadBalancer"): "elasticloadbalancing:DeleteLoadBalancer",
    ("elbv2", "DeleteLoadBalancer"): "elasticloadbalancing:DeleteLoadBalancer",
    ("kms", "ScheduleKeyDeletion"): "kms:ScheduleKeyDeletion",
    ("logs", "DeleteLogGroup"): "logs:DeleteLogGroup",
    ("s3", "AbortMultipartUpload"): "s3:AbortMultipartUpload",
    ("s3", "DeleteBucket"): "s3:DeleteBucket",
    ("s3", "DeleteObjects"): "s3:DeleteObjectVersion",
    ("s3", "ListMultipartUploads"): "s3:ListBucketMultipartUploads",
    ("s3", "ListObjectVersions"): "s3:ListBucketVersions",
}

# What only an administrator may do, and no policy of ours allows: `up` and `destroy` try, and say whom to ask.
ADMINISTERS: dict[tuple[str, str], str] = {
    ("iam", "CreatePolicy"): "iam:CreatePolicy",
    ("iam", "DeletePolicy"): "iam:DeletePolicy",
}

# Daily work with a cluster that exists. These umiak may call itself; they only look, or get a password for the registry.
USES: dict[tuple[str, str], str] = {
    ("cloudformation", "DescribeStacks"): "cloudformation:DescribeStacks",
    ("cloudformation", "GetTemplateSummary"): "cloudformation:GetTemplateSummary",
    ("ecr", "DescribeImages"): "ecr:DescribeImages",
    ("ecr", "DescribeRepositories"): "ecr:DescribeRepositories",
    ("ecr", "GetAuthorizationToken"): "ecr:GetAuthorizationToken",
    ("eks", "DescribeAddon"): "eks:DescribeAddon",
    ("eks", "DescribeAddonVersions"): "eks:DescribeAddonVersions",
    ("eks", "DescribeCluster"): "eks:DescribeCluster",
    ("ssm", "StartSession"): "ssm:StartSession",
    ("sts", "GetCallerIdentity"): "sts:GetCallerIdentity",
}

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
