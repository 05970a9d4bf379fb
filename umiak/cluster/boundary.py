"""The permissions boundary: the most that any role of the cluster can do, whatever a deployer attaches to it.

Who may create roles could otherwise make one that may do everything, and become it. An administrator creates this policy once;
the deploy policies allow roles only with it, and forbid to change it. `up` creates it where the credentials allow that.
"""

from __future__ import annotations

import json

from umiak.cluster import policy
from umiak.cluster.aws import Aws, AwsError, DeniedError
from umiak.cluster.policy import Statement
from umiak.cluster.scopes import boundary_arn
from umiak.cluster.template.roles import boundary_name
from umiak.errors import InputError
from umiak.spec.cluster import TAG, ClusterSpec, partition, suffix

FILE = "policy-boundary.json"
_REGIONAL = "AWS's policies for these roles name no resources here; limited to the region"


def statements(spec: ClusterSpec) -> tuple[Statement, ...]:
    """What EKS, its nodes and add-ons, the data role and the way in need, and nothing that makes identities or changes
    somebody's machines. AWS's own policies have more, for what this cluster does not use: kubenet's routes, disks made in the
    tree, parameters of Systems Manager."""
    name, region, account = spec.name, spec.region, spec.account or "*"
    root = f"arn:{partition(region)}"
    buckets = [f"{name}-*", *([spec.existing.bucket] if spec.existing.bucket else [])]
    buckets = [f"{name}-*", *([spec.existing.bucket] if spec.existing.bucket else [])]
    here = {"StringEquals": {"aws:RequestedRegion": region}}
    return (
        Statement(
            "Network",
            (
                "autoscaling:Describe*",
                "ec2:AssignPrivateIpAddresses",
                "ec2:AttachNetworkInterface",
                "ec2:AuthorizeSecurityGroupIngress",
                "ec2:CreateNetworkInterface",
                "ec2:CreateSecurityGroup",
                "ec2:DeleteNetworkInterface",
                "ec2:DeleteSecurityGroup",
                "ec2:Describe*",
                "ec2:DetachNetworkInterface",
                "ec2:ModifyNetworkInterfaceAttribute",
                "ec2:RevokeSecurityGroupIngress",
                "ec2:UnassignPrivateIpAddresses",
                "elasticloadbalancing:*",
                "kms:DescribeKey",
            ),
            ("*",),
            here,
            _REGIONAL,
        ),
        Statement(
            "NetworkTags",
            ("ec2:CreateTags",),
            tuple(f"{root}:ec2:{region}:{account}:{kind}/*" for kind in ("network-interface", "security-group")),
        ),
        Statement(
            "Nodes",
            (
                "ec2messages:*",
                "ecr:BatchCheckLayerAvailability",
                "ecr:BatchGetImage",
                "ecr:BatchImportUpstreamImage",
                "ecr:GetAuthorizationToken",
                "ecr:GetDownloadUrlForLayer",
                "eks-auth:AssumeRoleForPodIdentity",
                "eks:DescribeCluster",
                "ssm:DescribeAssociation",
                "ssm:DescribeDocument",
                "ssm:GetDeployablePatchSnapshotForInstance",
                "ssm:GetDocument",
                "ssm:GetManifest",
                "ssm:ListAssociations",
                "ssm:ListInstanceAssociations",
                "ssm:PutComplianceItems",
                "ssm:PutConfigurePackageResult",
                "ssm:PutInventory",
                "ssm:UpdateAssociationStatus",
                "ssm:UpdateInstanceAssociationStatus",
                "ssm:UpdateInstanceInformation",
                "ssmmessages:*",
            ),
            ("*",),
            here,
            _REGIONAL,
        ),
        Statement(
            "Volume",
            (
                "elasticfilesystem:Client*",
                "elasticfilesystem:CreateAccessPoint",
                "elasticfilesystem:DeleteAccessPoint",
                "elasticfilesystem:Describe*",
                "elasticfilesystem:TagResource",
            ),
            ("*",),
            here,
            _REGIONAL,
        ),
        Statement(
            "Bucket",
            ("s3:GetObject", "s3:ListBucket"),
            tuple(f"{root}:s3:::{bucket}{rest}" for bucket in buckets for rest in ("", "/*")),
        ),
        Statement(
            "Key",
            ("kms:Decrypt",),
            (spec.kms_key_arn or f"{root}:kms:{region}:{account}:key/*",),
            {"StringEquals": {"kms:ViaService": f"s3.{region}.{suffix(region)}"}},
        ),
        Statement(
            "Balancers",
            ("iam:CreateServiceLinkedRole",),
            (f"{root}:iam::{account}:role/aws-service-role/elasticloadbalancing.amazonaws.com/*",),
            {"StringEquals": {"iam:AWSServiceName": "elasticloadbalancing.amazonaws.com"}},
        ),
    )


def text(spec: ClusterSpec) -> str:
    return policy.text(statements(spec))


def command(spec: ClusterSpec) -> str:
    """What an administrator runs once, beside the rendered files."""
    return (
        f"aws iam create-policy --policy-name {boundary_name(spec.name, spec.region)} --policy-document file://{FILE}"
    )


def look(aws: Aws, spec: ClusterSpec, account: str) -> dict[str, object] | None:
    """The policy as IAM has it: its tags, and `document`."""
    arn = boundary_arn(spec.name, spec.region, account)
    try:
        found = aws.call("iam", "GetPolicy", region=aws.home, PolicyArn=arn)["Policy"]
        version = aws.call(
            "iam", "GetPolicyVersion", region=aws.home, PolicyArn=arn, VersionId=found["DefaultVersionId"]
        )
    except AwsError as error:
        if error.code == "NoSuchEntity":
            return None
        raise
    tags = {tag["Key"]: tag["Value"] for tag in found.get("Tags", [])}
    return {"arn": arn, "tags": tags, "document": version["PolicyVersion"]["Document"]}


def is_current(spec: ClusterSpec, document: object) -> bool:
    return document == json.loads(text(spec))


def ensure(aws: Aws, spec: ClusterSpec, account: str) -> bool:
    """There when the roles need it; whether it was made now. Raises with what to do, before anything is billed."""
    try:
        if look(aws, spec, account) is not None:
            return False
        aws.call(
            "iam",
            "CreatePolicy",
            region=aws.home,
            PolicyName=boundary_name(spec.name, spec.region),
            PolicyDocument=text(spec),
            Description=f"The most that roles of the umiak cluster {spec.name} can do",
            Tags=[{"Key": TAG, "Value": spec.name}],
        )
    except DeniedError as error:
        raise InputError(
            f"the roles of {spec.name} need the permissions boundary {boundary_name(spec.name, spec.region)}, and these "
            f"credentials are not allowed to do {error.action}; nothing was created. An administrator makes it once, after "
            f"`umiak cluster render` and in the rendered directory: {command(spec)}"
        ) from error
    except AwsError as error:
        # An answer was lost on the way and boto3 asked again.
        if error.code != "EntityAlreadyExists":
            raise
    return True


def remove(aws: Aws, spec: ClusterSpec, account: str) -> str | None:
    """What became of it, in words; None when there is none. What an administrator made stays: it carries no tag of ours."""
    try:
        found = look(aws, spec, account)
        if found is None:
            return None
        name = boundary_name(spec.name, spec.region)
        if found["tags"] != {TAG: spec.name}:
            return f"kept: policy {name}, which an administrator made; it costs nothing"
        aws.call("iam", "DeletePolicy", region=aws.home, PolicyArn=found["arn"])
    except DeniedError as error:
        return f"kept: policy {boundary_name(spec.name, spec.region)}: these credentials are not allowed to do {error.action}"
    except AwsError as error:
        if error.code != "NoSuchEntity":
            raise
    return f"removed policy {name}"
