"""Where the actions of the policies are allowed: for each statement its resources, its conditions, and why a resource is "*"."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from umiak.cluster.template.bastion import IMAGE
from umiak.cluster.template.roles import MANAGED, boundary_name, jobs, role_name
from umiak.cluster.template.storage import alias_name, log_group_name
from umiak.spec.cluster import TAG, ClusterSpec, ec2_service, partition, suffix

# AWS's own document for a port that leads to another host.
DOCUMENT = "AWS-StartPortForwardingSessionToRemoteHost"
# What makes something in EC2 and tags it in the same request.
EC2_CREATIONS = (
    "AllocateAddress",
    "CreateInternetGateway",
    "CreateLaunchTemplate",
    "CreateNatGateway",
    "CreateNetworkInterface",
    "CreateRouteTable",
    "CreateSecurityGroup",
    "CreateSubnet",
    "CreateVpc",
    "CreateVpcEndpoint",
    "RunInstances",
)


@dataclass(frozen=True)
class Scope:
    resources: tuple[str, ...]
    conditions: dict[str, dict[str, Any]] = field(default_factory=dict)
    reason: str = ""


def role_arn(cluster: str, region: str, account: str | None, job: str) -> str:
    return f"arn:{partition(region)}:iam::{account or '*'}:role/{role_name(cluster, region, job)}"


def boundary_arn(cluster: str, region: str, account: str | None) -> str:
    return f"arn:{partition(region)}:iam::{account or '*'}:policy/{boundary_name(cluster, region)}"


def scopes(spec: ClusterSpec) -> dict[str, Scope]:
    """By the name of a statement."""
    name, region, account = spec.name, spec.region, spec.account or "*"
    root = f"arn:{partition(region)}"

    def arn(service: str, rest: str) -> str:
        return f"{root}:{service}:{region}:{account}:{rest}"

    here = {"StringEquals": {"aws:RequestedRegion": region}}
    tagged = {"StringEquals": {f"aws:ResourceTag/{TAG}": name}}
    tagging = {"StringEquals": {f"aws:RequestTag/{TAG}": name}}
    log_group = arn("logs", f"log-group:{log_group_name(name)}")
    key = Scope((spec.kms_key_arn,)) if spec.kms_key_arn else Scope((arn("kms", "key/*"),), tagged)
    via_s3 = {"kms:ViaService": f"s3.{region}.{suffix(region)}"}
    services = ["eks.amazonaws.com", "eks-nodegroup.amazonaws.com", "elasticfilesystem.amazonaws.com"]
    services += ["spot.amazonaws.com"] if spec.nodes.spot else []
    buckets = [f"{name}-*", *([spec.existing.bucket] if spec.existing.bucket else [])]
    repositories = [f"{name}-*", *([spec.existing.images] if spec.existing.images else [])]
    roles = tuple(role_arn(name, region, spec.account, job) for job in jobs(spec))
    boundary = boundary_arn(name, region, spec.account)
    # The key holds one ARN, so that a pattern can stand only for the account.
    bound = {"StringEquals" if spec.account else "StringLike": {"iam:PermissionsBoundary": boundary}}
    managed = sorted(f"{root}:iam::aws:policy/{policy}" for job in jobs(spec) for policy in MANAGED[job])
    attachable = {"ArnEquals": {"iam:PolicyARN": managed}}
    # Tags count for KMS up to five minutes late. A stack has no keys but those it made: imports are refused.
    via_stack = {"ForAnyValue:StringEquals": {"aws:CalledVia": ["cloudformation.amazonaws.com"]}}
    new_key = {} if spec.kms_key_arn else {"KeyByStack": Scope((arn("kms", "key/*"),), via_stack)}
    return new_key | {
        "Look": Scope(("*",), reason="these calls only read, and nearly all name no resource that could be limited"),
        "PublicParameters": Scope(
            (
                f"{root}:ssm:*::parameter/aws/service/global-infrastructure/*",
                f"{root}:ssm:{region}::parameter/aws/service/eks/optimized-ami/*",
                *([f"{root}:ssm:{region}::parameter{IMAGE}"] if spec.kubernetes.bastion else []),
            )
        ),
        "Session": Scope((arn("ec2", "instance/*"),), {"StringEquals": {f"ssm:resourceTag/{TAG}": name}}),
        "SessionDocument": Scope((f"{root}:ssm:{region}::document/{DOCUMENT}",)),
        "Profile": Scope((f"{root}:iam::{account}:instance-profile/{role_name(name, region, 'bastion')}",)),
        "Self": Scope((f"{root}:iam::{account}:role/*", f"{root}:iam::{account}:user/*")),
        "Stack": Scope((arn("cloudformation", f"stack/{name}/*"), arn("cloudformation", "changeSet/*"))),
        # Without imports: what somebody else made cannot become part of a stack of ours.
        "Plan": Scope(
            (arn("cloudformation", f"stack/{name}/*"), arn("cloudformation", "changeSet/*")),
            {"Null": {"cloudformation:ImportResourceTypes": "true"}},
        ),
        "Ec2": Scope(
            ("*",),
            here,
            "these make or connect network parts that have no name or tag before they exist; limited to the region",
        ),
        "Ec2New": Scope((arn("ec2", "*"),), {"StringEquals": {"ec2:CreateAction": list(EC2_CREATIONS)}}),
        "Ec2Own": Scope((arn("ec2", "*"),), tagged),
        "ByKubernetes": Scope(
            (arn("ec2", "security-group/*"), arn("ec2", "volume/*"), arn("elasticloadbalancing", "loadbalancer/*")),
            {"StringEquals": {f"aws:ResourceTag/kubernetes.io/cluster/{name}": "owned"}},
        ),
        "ByBalancers": Scope(
            (arn("ec2", "security-group/*"), arn("elasticloadbalancing", "loadbalancer/*")),
            {"StringEquals": {"aws:ResourceTag/elbv2.k8s.aws/cluster": name}},
        ),
        "ByGuardDuty": Scope(
            (arn("ec2", "security-group/*"), arn("ec2", "vpc-endpoint/*")),
            {"StringEquals": {"aws:ResourceTag/GuardDutyManaged": "true"}},
        ),
        "Efs": Scope((arn("elasticfilesystem", "file-system/*"), arn("elasticfilesystem", "access-point/*"))),
        "EfsNew": Scope(
            (arn("elasticfilesystem", "file-system/*"), arn("elasticfilesystem", "access-point/*")),
            {"StringEquals": {"elasticfilesystem:CreateAction": ["CreateAccessPoint", "CreateFileSystem"]}},
        ),
        "EfsOwn": Scope(
            (arn("elasticfilesystem", "file-system/*"), arn("elasticfilesystem", "access-point/*")), tagged
        ),
        "Eks": Scope(
            tuple(
                arn("eks", f"{kind}/{name}{rest}")
                for kind, rest in (
                    ("cluster", ""),
                    ("access-entry", "/*"),
                    ("addon", "/*"),
                    ("nodegroup", "/*"),
                    ("podidentityassociation", "/*"),
                )
            )
        ),
        "Roles": Scope(roles),
        "RolesBound": Scope(roles, bound),
        "RolesAttach": Scope(roles, bound | attachable),
        "RolesDetach": Scope(roles, attachable),
        "Boundary": Scope((boundary,)),
        "PassRoles": Scope(
            roles,
            {
                "StringEquals": {
                    "iam:PassedToService": [ec2_service(region), "eks.amazonaws.com", "pods.eks.amazonaws.com"]
                }
            },
        ),
        "ServiceRoles": Scope(
            (f"{root}:iam::{account}:role/aws-service-role/*",), {"StringEquals": {"iam:AWSServiceName": services}}
        ),
        "New": Scope(("*",), tagging, "these make what has no name yet; only what gets our tag can be made"),
        # KMS has no word for a key that is being made. A stack of ours makes one and tags it, and cannot take over another's.
        "KeyTags": Scope(
            ("*",),
            tagging | via_stack,
            "the key has no name yet; only CloudFormation can tag one, for a stack of ours",
        ),
        "Key": key,
        "KeyByS3": replace(key, conditions={"StringEquals": key.conditions.get("StringEquals", {}) | via_s3}),
        "KeyAlias": Scope((arn("kms", alias_name(name)), arn("kms", "key/*"))),
        "Bucket": Scope(tuple(f"{root}:s3:::{bucket}" for bucket in buckets)),
        "Objects": Scope(tuple(f"{root}:s3:::{bucket}/*" for bucket in buckets)),
        "Images": Scope(tuple(arn("ecr", f"repository/{images}") for images in repositories)),
        "Logs": Scope((log_group, f"{log_group}:*")),
    }
