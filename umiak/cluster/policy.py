"""The IAM policies a cluster needs, exact: no action that nothing uses, no resource wider than a written reason.

With `use` alone a user works with a cluster that exists: pushes the image, uploads data, writes a kubeconfig. With `plan` a user
validates, prices and watches; with the two `deploy` documents as well (two, because IAM limits the size of one), creates and
removes. An administrator who deploys the rendered template by hand gives a user only the first two.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from umiak.cluster.actions import CALLS, CHANGES, DAILY, STACK, TYPES, USES
from umiak.cluster.template.roles import role_name
from umiak.cluster.template.storage import alias_name, log_group_name
from umiak.spec.cluster import TAG, ClusterSpec, partition, suffix

# IAM refuses a managed policy with more characters than this, white space not counted.
SIZE_LIMIT = 6144


@dataclass(frozen=True)
class Statement:
    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: dict[str, dict[str, Any]] = field(default_factory=dict)
    # Why a resource is "*"; a policy has no room for comments, so it stands here and in the summary.
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        body = {"Sid": self.sid, "Effect": "Allow", "Action": list(self.actions), "Resource": list(self.resources)}
        return body | ({"Condition": self.conditions} if self.conditions else {})


@dataclass(frozen=True)
class _Scope:
    resources: tuple[str, ...]
    conditions: dict[str, dict[str, Any]] = field(default_factory=dict)
    reason: str = ""


def documents(spec: ClusterSpec, types: Iterable[str]) -> dict[str, tuple[Statement, ...]]:
    """The statements of each document, for a template with resources of these types."""
    plan = set(CALLS.values())
    needed = {action for name in types for action in TYPES[name]} | set(STACK) | changes(spec)
    # What the first document allows need not stand in another, unless it is about other resources: a user looks at its own
    # role, CloudFormation at the cluster's.
    deploy = _statements(spec, {action for action in needed if action not in plan or action == "iam:GetRole"}, "Deploy")
    network = {
        "Look",
        "Stack",
        "Ec2",
        "Ec2Own",
        "ByKubernetes",
        "ByBalancers",
        "ByGuardDuty",
        "Roles",
        "PassRoles",
        "ServiceRoles",
    }
    return {
        "use": _statements(spec, {*USES.values(), *DAILY}, "Use"),
        "plan": _statements(spec, plan, "Plan"),
        "deploy-network": tuple(item for item in deploy if item.sid.removeprefix("Deploy") in network),
        "deploy-services": tuple(item for item in deploy if item.sid.removeprefix("Deploy") not in network),
    }


def changes(spec: ClusterSpec) -> set[str]:
    """What `up` and `destroy` do themselves. A key of the user's own is never deleted."""
    return set(CHANGES.values()) - ({"kms:ScheduleKeyDeletion"} if spec.kms_key_arn else set())


def text(statements: Iterable[Statement]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [item.to_dict() for item in statements]}, indent=2) + "\n"


def size(policy: str) -> int:
    """Its characters as IAM counts them."""
    return sum(not character.isspace() for character in policy)


def _statements(spec: ClusterSpec, actions: set[str], prefix: str) -> tuple[Statement, ...]:
    scopes = _scopes(spec)
    grouped: dict[str, list[str]] = {}
    for action in sorted(actions):
        for place in _places(action, prefix):
            grouped.setdefault(place, []).append(action)
    return tuple(
        Statement(prefix + name, tuple(grouped[name]), scope.resources, scope.conditions, scope.reason)
        for name, scope in scopes.items()
        if name in grouped
    )


# Deletions of whole EC2 objects, which carry our tag from their creation on.
_EC2_TAGGED = {
    "DeleteInternetGateway",
    "DeleteLaunchTemplate",
    "DeleteNatGateway",
    "DeleteRoute",
    "DeleteRouteTable",
    "DeleteSecurityGroup",
    "DeleteSubnet",
    "DeleteVpc",
    "DeleteVpcEndpoints",
    "DetachInternetGateway",
    "ReleaseAddress",
}

# Actions that stand apart from the rest of their service.
_PLACES = {
    "cloudformation:ListStacks": "Look",
    "cloudformation:ValidateTemplate": "Look",
    "ecr:DescribeRepositories": "Look",
    "eks:CreateCluster": "New",
    "eks:DescribeClusterVersions": "Look",
    "eks:ListClusters": "Look",
    "elasticfilesystem:CreateFileSystem": "New",
    "elasticfilesystem:DeleteFileSystem": "EfsOwn",
    "elasticfilesystem:DeleteAccessPoint": "EfsOwn",
    "iam:CreateServiceLinkedRole": "ServiceRoles",
    "iam:PassRole": "PassRoles",
    "iam:SimulatePrincipalPolicy": "Self",
    "kms:CreateAlias": "KeyAlias",
    "kms:CreateKey": "New",
    "kms:DeleteAlias": "KeyAlias",
    "kms:ListAliases": "Look",
    "kms:TagResource": "New",
    "kms:UpdateAlias": "KeyAlias",
    "logs:DescribeIndexPolicies": "Look",
    "logs:DescribeLogGroups": "Look",
    "logs:DescribeResourcePolicies": "Look",
    "s3:AbortMultipartUpload": "Objects",
    "s3:DeleteObjectVersion": "Objects",
    "s3:ListAllMyBuckets": "Look",
    "ssm:GetParameters": "PublicParameters",
}

# In daily work objects are written and read, through the key only by way of S3; nothing outside the cluster is looked at.
_USE_PLACES = {
    "ecr:DescribeRepositories": "Images",
    "ecr:GetAuthorizationToken": "Look",
    "kms:Decrypt": "KeyByS3",
    "kms:GenerateDataKey": "KeyByS3",
    "s3:GetObject": "Objects",
    "s3:ListMultipartUploadParts": "Objects",
    "s3:PutObject": "Objects",
}

# What Kubernetes and GuardDuty made and `destroy` removes: it carries the tags of who made it, and not ours.
_BY_KUBERNETES = {
    "ec2:DeleteSecurityGroup": ("Ec2Own", "ByKubernetes", "ByBalancers", "ByGuardDuty"),
    "ec2:DeleteVpcEndpoints": ("Ec2Own", "ByGuardDuty"),
    "ec2:DeleteVolume": ("ByKubernetes",),
    "elasticloadbalancing:DeleteLoadBalancer": ("ByKubernetes", "ByBalancers"),
}

_SERVICES = {
    "cloudformation": "Stack",
    "ecr": "Images",
    "eks": "Eks",
    "elasticfilesystem": "Efs",
    "elasticloadbalancing": "Look",
    "iam": "Roles",
    "kms": "Key",
    "logs": "Logs",
    "pricing": "Look",
    "s3": "Bucket",
    "servicequotas": "Look",
    "sts": "Look",
    "tag": "Look",
}


def _places(action: str, prefix: str) -> tuple[str, ...]:
    """The statements an action stands in; nearly all in one."""
    service, _, name = action.partition(":")
    if action in _BY_KUBERNETES:
        return _BY_KUBERNETES[action]
    if prefix == "Use" and action in _USE_PLACES:
        return (_USE_PLACES[action],)
    if service == "ec2":
        return ("Look" if name.startswith("Describe") else "Ec2Own" if name in _EC2_TAGGED else "Ec2",)
    if action == "iam:GetRole" and prefix == "Plan":
        # The caller's own, and the cluster's, which the last look of a destroy is about.
        return ("Self",)
    return (_PLACES.get(action) or _SERVICES[service],)


def _scopes(spec: ClusterSpec) -> dict[str, _Scope]:
    name, region, account = spec.name, spec.region, spec.account or "*"
    root = f"arn:{partition(region)}"

    def arn(service: str, rest: str) -> str:
        return f"{root}:{service}:{region}:{account}:{rest}"

    here = {"StringEquals": {"aws:RequestedRegion": region}}
    tagged = {"StringEquals": {f"aws:ResourceTag/{TAG}": name}}
    tagging = {"StringEquals": {f"aws:RequestTag/{TAG}": name}}
    log_group = arn("logs", f"log-group:{log_group_name(name)}")
    key = _Scope((spec.kms_key_arn,)) if spec.kms_key_arn else _Scope((arn("kms", "key/*"),), tagged)
    via_s3 = {"kms:ViaService": f"s3.{region}.{suffix(region)}"}
    services = ["eks.amazonaws.com", "eks-nodegroup.amazonaws.com", "elasticfilesystem.amazonaws.com"]
    services += ["spot.amazonaws.com"] if spec.nodes.spot else []
    roles = f"{root}:iam::{account}:role/{role_name(name, region, '*')}"
    return {
        "Look": _Scope(("*",), reason="these calls only read, and nearly all name no resource that could be limited"),
        "PublicParameters": _Scope((f"{root}:ssm:*::parameter/aws/service/global-infrastructure/*",)),
        "Self": _Scope((f"{root}:iam::{account}:role/*", f"{root}:iam::{account}:user/*")),
        "Stack": _Scope((arn("cloudformation", f"stack/{name}/*"), arn("cloudformation", "changeSet/*"))),
        "Ec2": _Scope(
            ("*",),
            here,
            "these make or connect network parts that have no name or tag before they exist; limited to the region",
        ),
        "Ec2Own": _Scope((arn("ec2", "*"),), tagged),
        "ByKubernetes": _Scope(
            (arn("ec2", "security-group/*"), arn("ec2", "volume/*"), arn("elasticloadbalancing", "loadbalancer/*")),
            {"StringEquals": {f"aws:ResourceTag/kubernetes.io/cluster/{name}": "owned"}},
        ),
        "ByBalancers": _Scope(
            (arn("ec2", "security-group/*"), arn("elasticloadbalancing", "loadbalancer/*")),
            {"StringEquals": {"aws:ResourceTag/elbv2.k8s.aws/cluster": name}},
        ),
        "ByGuardDuty": _Scope(
            (arn("ec2", "security-group/*"), arn("ec2", "vpc-endpoint/*")),
            {"StringEquals": {"aws:ResourceTag/GuardDutyManaged": "true"}},
        ),
        "Efs": _Scope((arn("elasticfilesystem", "file-system/*"), arn("elasticfilesystem", "access-point/*"))),
        "EfsOwn": _Scope(
            (arn("elasticfilesystem", "file-system/*"), arn("elasticfilesystem", "access-point/*")), tagged
        ),
        "Eks": _Scope(
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
        "Roles": _Scope((roles,)),
        "PassRoles": _Scope(
            (roles,),
            {
                "StringEquals": {
                    "iam:PassedToService": ["ec2.amazonaws.com", "eks.amazonaws.com", "pods.eks.amazonaws.com"]
                }
            },
        ),
        "ServiceRoles": _Scope(
            (f"{root}:iam::{account}:role/aws-service-role/*",), {"StringEquals": {"iam:AWSServiceName": services}}
        ),
        "New": _Scope(("*",), tagging, "these make what has no name yet; only what gets our tag can be made"),
        "Key": key,
        "KeyByS3": replace(key, conditions={"StringEquals": key.conditions.get("StringEquals", {}) | via_s3}),
        "KeyAlias": _Scope((arn("kms", alias_name(name)), arn("kms", "key/*"))),
        "Bucket": _Scope((f"{root}:s3:::{name}-*",)),
        "Objects": _Scope((f"{root}:s3:::{name}-*/*",)),
        "Images": _Scope((arn("ecr", f"repository/{name}-*"),)),
        "Logs": _Scope((log_group, f"{log_group}:*")),
    }
