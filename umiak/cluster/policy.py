"""The IAM policies a cluster needs, exact: no action that nothing uses, no resource wider than a written reason.

Where each is allowed is `umiak.cluster.scopes`. With `use` alone a user works with a cluster that exists: pushes the image,
uploads data, writes a kubeconfig. With `plan` a user validates, prices and watches; with the three `deploy` documents as well
(three, because IAM limits the size of one), creates and removes. An administrator who deploys the rendered template by hand
gives a user only the first two.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from umiak.cluster.actions import CALLS, CHANGES, DAILY, STACK, TYPES, USES
from umiak.cluster.scopes import boundary_arn, role_arn, scopes
from umiak.spec.cluster import ClusterSpec

# IAM refuses a managed policy with more characters than this, white space not counted.
SIZE_LIMIT = 6144
# What `connect` does, and `up` when it opens the door.
CONNECTS = "ssm:StartSession"
# Statements that do not stand in "deploy-services".
_PARTS = {
    "deploy-network": {
        "Look",
        "Stack",
        "Plan",
        "Ec2",
        "Ec2New",
        "Ec2Own",
        "ByKubernetes",
        "ByBalancers",
        "ByGuardDuty",
    },
    "deploy-roles": {
        "Roles",
        "RolesBound",
        "RolesAttach",
        "RolesDetach",
        "PassRoles",
        "ServiceRoles",
        "Profile",
        # Keys stand here for want of room in the other document.
        "KeyByStack",
        "KeyTags",
        "KeyAlias",
    },
}


@dataclass(frozen=True)
class Statement:
    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: dict[str, dict[str, Any]] = field(default_factory=dict)
    # Why a resource is "*"; a policy has no room for comments, so it stands here and in the summary.
    reason: str = ""
    effect: str = "Allow"

    def to_dict(self) -> dict[str, Any]:
        body = {"Sid": self.sid, "Effect": self.effect, "Action": list(self.actions), "Resource": list(self.resources)}
        return body | ({"Condition": self.conditions} if self.conditions else {})


def documents(spec: ClusterSpec, types: Iterable[str]) -> dict[str, tuple[Statement, ...]]:
    """The statements of each document, for a template with resources of these types."""
    plan = set(CALLS.values())
    needed = {action for name in types for action in TYPES[name]} | set(STACK) | changes(spec)
    # What the first document allows need not stand in another, unless it is about other resources: a user looks at its own
    # role and keys with our tag, CloudFormation at the cluster's and at a key it has just made.
    others = {"iam:GetRole"} | ({"kms:DescribeKey", "kms:GetKeyPolicy"} if spec.kms_key_arn is None else set())
    deploy = _statements(spec, {action for action in needed if action not in plan or action in others}, "Deploy")
    return {
        "use": _statements(spec, uses(spec), "Use"),
        "plan": _statements(spec, plan, "Plan"),
        **{
            name: tuple(item for item in deploy if _part(item) == name)
            for name in ("deploy-network", "deploy-services")
        },
        "deploy-roles": (*(item for item in deploy if _part(item) == "deploy-roles"), *_denied(spec)),
    }


def _part(item: Statement) -> str:
    sid = item.sid.removeprefix("Deploy")
    return next((name for name, sids in _PARTS.items() if sid in sids), "deploy-services")


def _denied(spec: ClusterSpec) -> tuple[Statement, ...]:
    """Whatever else a deployer holds: the boundary stays as it is, and on the roles."""
    return (
        Statement(
            "DeployKeepsBoundary",
            ("iam:DeleteRolePermissionsBoundary",),
            (role_arn(spec.name, spec.region, spec.account, "*"),),
            effect="Deny",
        ),
        Statement(
            "DeployLeavesBoundary",
            (
                "iam:CreatePolicyVersion",
                "iam:DeletePolicy",
                "iam:DeletePolicyVersion",
                "iam:SetDefaultPolicyVersion",
            ),
            (boundary_arn(spec.name, spec.region, spec.account),),
            effect="Deny",
        ),
    )


def uses(spec: ClusterSpec) -> set[str]:
    """Daily work. A session is opened only where there is an instance for it."""
    return {*USES.values(), *DAILY} - (set() if spec.kubernetes.bastion else {CONNECTS})


def changes(spec: ClusterSpec) -> set[str]:
    """What `up` and `destroy` do themselves. A key of the user's own is never deleted."""
    made = set(CHANGES.values()) | ({CONNECTS} if spec.kubernetes.bastion else set())
    return made - ({"kms:ScheduleKeyDeletion"} if spec.kms_key_arn else set())


def text(statements: Iterable[Statement]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [item.to_dict() for item in statements]}, indent=2) + "\n"


def size(policy: str) -> int:
    """Its characters as IAM counts them."""
    return sum(not character.isspace() for character in policy)


def _statements(spec: ClusterSpec, actions: set[str], prefix: str) -> tuple[Statement, ...]:
    allowed = scopes(spec)
    grouped: dict[str, list[str]] = {}
    for action in sorted(actions):
        for place in _places(action, prefix):
            grouped.setdefault(place, []).append(action)
    return tuple(
        Statement(prefix + name, tuple(grouped[name]), scope.resources, scope.conditions, scope.reason)
        for name, scope in allowed.items()
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
    "DeleteTags",
    "DeleteVpc",
    "DeleteVpcEndpoints",
    "DetachInternetGateway",
    "ModifyInstanceMetadataOptions",
    "ReleaseAddress",
    "TerminateInstances",
}

# Actions that stand apart from the rest of their service.
_PLACES = {
    "cloudformation:ListStacks": "Look",
    "cloudformation:CreateChangeSet": "Plan",
    "cloudformation:ValidateTemplate": "Look",
    "ecr:DescribeRepositories": "Look",
    "eks:CreateCluster": "New",
    "eks:DescribeAddonVersions": "Look",
    "eks:DescribeClusterVersions": "Look",
    "eks:ListClusters": "Look",
    "elasticfilesystem:CreateFileSystem": "New",
    "elasticfilesystem:DeleteFileSystem": "EfsOwn",
    "elasticfilesystem:PutFileSystemPolicy": "EfsOwn",
    "elasticfilesystem:DeleteAccessPoint": "EfsOwn",
    "elasticfilesystem:UntagResource": "EfsOwn",
    "iam:AddRoleToInstanceProfile": "Profile",
    "iam:AttachRolePolicy": "RolesAttach",
    "iam:CreateInstanceProfile": "Profile",
    "iam:CreateRole": "RolesBound",
    "iam:CreateServiceLinkedRole": "ServiceRoles",
    "iam:DeleteInstanceProfile": "Profile",
    "iam:DetachRolePolicy": "RolesDetach",
    "iam:GetInstanceProfile": "Profile",
    "iam:GetPolicy": "Boundary",
    "iam:GetPolicyVersion": "Boundary",
    "iam:PassRole": "PassRoles",
    "iam:PutRolePermissionsBoundary": "RolesBound",
    "iam:PutRolePolicy": "RolesBound",
    "iam:RemoveRoleFromInstanceProfile": "Profile",
    "iam:SimulatePrincipalPolicy": "Self",
    "kms:CreateAlias": "KeyAlias",
    "kms:CreateKey": "New",
    "kms:DeleteAlias": "KeyAlias",
    "kms:ListAliases": "Look",
    "kms:TagResource": "KeyTags",
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

# Actions that stand in several. A tag decides what may be deleted, so it can be set only on what is being made or already ours.
# What Kubernetes and GuardDuty made and `destroy` removes carries the tags of who made it, and not ours.
_SEVERAL = {
    "ec2:CreateTags": ("Ec2New", "Ec2Own"),
    "ec2:DeleteSecurityGroup": ("Ec2Own", "ByKubernetes", "ByBalancers", "ByGuardDuty"),
    "ec2:DeleteVpcEndpoints": ("Ec2Own", "ByGuardDuty"),
    "ec2:DeleteVolume": ("ByKubernetes",),
    "elasticfilesystem:TagResource": ("EfsNew", "EfsOwn"),
    "elasticloadbalancing:DeleteLoadBalancer": ("ByKubernetes", "ByBalancers"),
    CONNECTS: ("Session", "SessionDocument"),
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
    if action in _SEVERAL:
        return _SEVERAL[action]
    if prefix == "Use" and action in _USE_PLACES:
        return (_USE_PLACES[action],)
    if service == "ec2":
        return ("Look" if name.startswith("Describe") else "Ec2Own" if name in _EC2_TAGGED else "Ec2",)
    if service == "kms" and prefix == "Deploy" and action not in _PLACES:
        return ("KeyByStack",) if action in CALLS.values() else ("Key", "KeyByStack")
    if action == "iam:GetRole" and prefix == "Plan":
        # The caller's own, and the cluster's, which the last look of a destroy is about.
        return ("Self",)
    return (_PLACES.get(action) or _SERVICES[service],)
