"""The IAM policies are exact: nothing the code or the template needs is missing, nothing is there that neither uses.

The authorities are AWS's own: CloudFormation's resource schemas say what it does for a type, the service authorization
reference says which actions exist and what they can be limited to. cfn-lint carries both.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import cfnlint.data.AdditionalSpecs
import pytest

import umiak.cluster
from tests.cluster_options import chosen, cover, spec, templates
from tests.test_cluster_template import schema
from umiak.cluster import boundary, policy, template
from umiak.cluster.actions import ADMINISTERS, CALLS, CHANGES, STACK, TYPES, USES
from umiak.cluster.policy import Statement

SOURCES = sorted(Path(umiak.cluster.__file__).parent.rglob("*.py"))
# Where AWS is asked, and where the session for it is made.
DOOR, SESSION = "aws.py", "session.py"

# What a schema lists for features this template does not use. `*` is every action that begins so.
UNUSED = {
    "AWS::EC2::EIP": {"ec2:AcceptAddressTransfer", "ec2:AssociateAddress"},
    "AWS::EC2::Instance": {
        "ec2:AssociateIamInstanceProfile",
        "ec2:AttachVolume",
        "ec2:DetachVolume",
        "ec2:DisassociateIamInstanceProfile",
        "ec2:ModifyInstanceAttribute",
        "ec2:ModifyInstanceCreditSpecification",
        "ec2:ModifyInstanceMaintenanceOptions",
        "ec2:ModifyInstancePlacement",
        "ec2:ModifyPrivateDnsNameOptions",
        "ec2:MonitorInstances",
        "ec2:ReplaceIamInstanceProfileAssociation",
        "ec2:StartInstances",
        "ec2:StopInstances",
        "ec2:UnmonitorInstances",
        "ssm:*",
    },
    "AWS::EC2::NatGateway": {
        "ec2:AssignPrivateNatGatewayAddress",
        "ec2:AssociateNatGatewayAddress",
        "ec2:DisassociateNatGatewayAddress",
        "ec2:UnassignPrivateNatGatewayAddress",
    },
    "AWS::EC2::Subnet": {"ec2:AssociateSubnetCidrBlock", "ec2:DisassociateSubnetCidrBlock"},
    "AWS::EC2::VPC": {"ec2:CreateVpcEncryptionControl", "ec2:ModifyVpcTenancy"},
    "AWS::EC2::VPCEndpoint": {"vpc-lattice:*", "vpce:AllowMultiRegion"},
    "AWS::EC2::VPCGatewayAttachment": {"ec2:AttachVpnGateway", "ec2:DetachVpnGateway"},
    "AWS::ECR::Repository": {
        "ecr:DeleteLifecyclePolicy",
        "ecr:DeleteRepositoryPolicy",
        "ecr:PutLifecyclePolicy",
        "ecr:SetRepositoryPolicy",
        "kms:*",
    },
    "AWS::EFS::FileSystem": {
        "elasticfilesystem:CreateReplicationConfiguration",
        "elasticfilesystem:DeleteFileSystemPolicy",
        "elasticfilesystem:DeleteReplicationConfiguration",
        "elasticfilesystem:DeleteTags",
        "elasticfilesystem:PutBackupPolicy",
        "elasticfilesystem:PutLifecycleConfiguration",
        "elasticfilesystem:UpdateFileSystemProtection",
        "iam:PassRole",
    },
    "AWS::EKS::Cluster": {
        "eks:ActivateCertificateAuthority",
        "eks:CreateAccessEntry",
        "iam:AddRoleToInstanceProfile",
        "iam:CreateInstanceProfile",
        "iam:DeleteInstanceProfile",
        "iam:GetInstanceProfile",
        "iam:RemoveRoleFromInstanceProfile",
        "iam:TagInstanceProfile",
    },
    "AWS::IAM::Role": {
        "iam:DeleteRolePermissionsBoundary",
        # Who a role trusts never changes, and who could change it could become it.
        "iam:UpdateAssumeRolePolicy",
        "iam:UpdateRole",
        "iam:UpdateRoleDescription",
    },
    "AWS::KMS::Key": {"kms:DisableKey", "kms:DisableKeyRotation", "kms:EnableKey"},
    "AWS::Logs::LogGroup": {
        "firehose:*",
        "logs:CreateLogDelivery",
        "logs:DeleteIndexPolicy",
        "logs:DeleteResourcePolicy",
        "logs:PutBearerTokenAuthentication",
        "logs:PutDataProtectionPolicy",
        "logs:PutIndexPolicy",
        "logs:PutLogGroupDeletionProtection",
        "logs:PutResourcePolicy",
        "s3:*",
    },
    "AWS::S3::Bucket": {
        "iam:PassRole",
        "s3:CreateBucketMetadataTableConfiguration",
        "s3:DeleteBucketAnalyticsConfiguration",
        "s3:DeleteBucketCors",
        "s3:DeleteBucketEncryption",
        "s3:DeleteBucketLifecycle",
        "s3:DeleteBucketMetadataTableConfiguration",
        "s3:DeleteBucketMetricsConfiguration",
        "s3:DeleteBucketReplication",
        "s3:DeleteBucketWebsite",
        "s3:DeleteObject",
        "s3:PutAccelerateConfiguration",
        "s3:PutAnalyticsConfiguration",
        "s3:PutBucketAbac",
        "s3:PutBucketAcl",
        "s3:PutBucketCORS",
        "s3:PutBucketLogging",
        "s3:PutBucketNotification",
        "s3:PutBucketObjectLockConfiguration",
        "s3:PutBucketReplication",
        "s3:PutBucketWebsite",
        "s3:PutIntelligentTieringConfiguration",
        "s3:PutInventoryConfiguration",
        "s3:PutMetricsConfiguration",
        "s3:PutObjectAcl",
        "s3:PutObjectLockConfiguration",
        "s3:PutReplicationConfiguration",
        "s3:UpdateBucketMetadata*",
        "s3tables:*",
    },
}
# What a service wants of the caller beyond what the schema says: a mount target is a network interface that EFS makes with
# the caller's permissions (EFS API reference, CreateMountTarget).
BEYOND = {
    "AWS::EFS::MountTarget": {
        "ec2:CreateNetworkInterface",
        "ec2:DeleteNetworkInterface",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSubnets",
        "ec2:ModifyNetworkInterfaceAttribute",
    }
}


def asked(tree: ast.AST) -> list[tuple[Any, Any]]:
    """(service, operation) of every `….call(…)`, `….pages(…)`, `….each(…)` and `partial(….call, …)`; None for what is not
    written out."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function, given = node.func, node.args
        if isinstance(function, ast.Name) and function.id == "partial":
            function, given = node.args[0], node.args[1:]
        if isinstance(function, ast.Attribute) and function.attr in ("call", "pages", "each"):
            words = [arg.value if isinstance(arg, ast.Constant) else None for arg in given[:2]]
            found.append((words[0], words[1]))
    return found


def test_every_call_the_code_makes_has_an_entry_and_every_entry_a_call() -> None:
    calls = {pair for path in SOURCES if path.name != DOOR for pair in asked(ast.parse(path.read_text()))}
    assert not any(None in pair for pair in calls), (
        "a call must name its service and operation, or it cannot be checked"
    )
    # Daily work is asked for by other packages as well, and by other programs.
    known = set(CALLS) | set(CHANGES) | set(ADMINISTERS)
    assert known <= calls <= known | set(USES)
    assert not set(CALLS) & set(CHANGES)


def test_there_is_no_second_way_to_aws() -> None:
    for path in SOURCES:
        if path.name not in (DOOR, SESSION):
            assert not re.search(r"^\s*(import|from) boto", path.read_text(), re.M), (
                f"{path.name} must ask through aws.py"
            )


def test_a_call_without_an_entry_cannot_be_made() -> None:
    from umiak.cluster.aws import Aws

    with pytest.raises(KeyError):
        Aws("us-west-2").call("ec2", "TerminateInstances")


def test_every_type_of_any_template_has_an_entry_and_every_entry_a_type() -> None:
    assert {kind for _, _, built in templates() for kind in template.types(built)} == set(TYPES)


@pytest.mark.parametrize("kind", sorted(TYPES))
def test_actions_of_a_type_are_those_cloudformation_declares(kind: str) -> None:
    handlers = schema(kind)["handlers"]
    declared = {action for name, handler in handlers.items() if name != "list" for action in handler["permissions"]}
    unused = UNUSED.get(kind, set())
    needed = {action for action in declared if not any(re.fullmatch(p.replace("*", ".*"), action) for p in unused)}
    assert set(TYPES[kind]) == needed | BEYOND.get(kind, set())
    for pattern in unused:
        assert any(re.fullmatch(pattern.replace("*", ".*"), action) for action in declared), (
            f"{pattern} excludes nothing"
        )


def documents(given: Any) -> dict[str, tuple[Statement, ...]]:
    return policy.documents(given, template.types(template.build(given)))


def every_statement() -> list[tuple[str, Statement]]:
    return [
        (f"{name}: {item.sid}", item)
        for choices in [(), *cover()]
        for name, items in documents(chosen(choices)).items()
        for item in items
    ]


def test_documents_together_hold_exactly_what_is_needed() -> None:
    for choices in [(), *cover()]:
        given = chosen(choices)
        types = template.types(template.build(given))
        needed = set(CALLS.values()) | set(STACK) | {action for kind in types for action in TYPES[kind]}
        needed |= policy.changes(given)
        statements = documents(given)
        used = [action for item in statements.pop("use") for action in item.actions]
        assert sorted(used) == sorted([*policy.uses(given), *([policy.CONNECTS] if given.kubernetes.bastion else [])])
        allowed = [item for items in statements.values() for item in items if item.effect == "Allow"]
        held = [action for item in allowed for action in item.actions]
        assert set(held) == needed
        # A role is looked up twice: the caller's own, and the cluster's. What Kubernetes made carries the tags of either of
        # its controllers, and what GuardDuty made its own. Tags are set on what is being made, and on what is ours.
        again = ["iam:GetRole", *["ec2:DeleteSecurityGroup"] * 3, "ec2:DeleteVpcEndpoints"]
        again += ["ec2:CreateTags", "elasticfilesystem:TagResource"]
        # A session is opened on an instance and by a document.
        again += [policy.CONNECTS] if given.kubernetes.bastion else []
        # A key is used by its tag, and by the stack that has just made it: KMS may not see the tag yet.
        again += [action for item in allowed if item.sid == "DeployKeyByStack" for action in item.actions]
        assert sorted(held) == sorted([*needed, *again, "elasticloadbalancing:DeleteLoadBalancer"])


def test_a_key_of_the_users_own_needs_no_right_to_make_keys() -> None:
    held = {a for items in documents(chosen([("kms", "own")])).values() for item in items for a in item.actions}
    assert not held & {"kms:CreateKey", "kms:CreateAlias", "kms:ScheduleKeyDeletion", "kms:PutKeyPolicy"}


def test_no_action_is_a_wildcard_and_no_resource_is_one_without_a_reason() -> None:
    for name, item in every_statement():
        assert not any("*" in action for action in item.actions), name
        assert (item.resources == ("*",)) == bool(item.reason), name
        assert "*" not in item.resources or len(item.resources) == 1, name


def test_what_may_change_something_anywhere_is_bound_by_region_or_tag() -> None:
    for name, item in every_statement():
        if item.reason and not item.sid.endswith("Look"):
            (condition,) = item.conditions["StringEquals"]
            assert condition in ("aws:RequestedRegion", "aws:RequestTag/umiak:cluster"), name
        if item.sid.endswith("Look"):
            assert all(re.match(r"\w+:(Describe|Get|List|Validate)", action) for action in item.actions), name


REFERENCE = json.loads((Path(cfnlint.data.AdditionalSpecs.__file__).parent / "Policies.json").read_text())


def limits(action: str) -> list[str]:
    """The kinds of resource an action can be limited to; KeyError when there is no such action."""
    service, name = action.split(":")
    found: list[str] = REFERENCE[service]["Actions"][name.lower()].get("Resources", [])
    return found


def test_every_action_exists_and_is_limited_only_where_it_can_be() -> None:
    for name, item in every_statement():
        for action in item.actions:
            if not limits(action):
                assert item.resources == ("*",), f"{name}: {action} knows no resources, so this would never allow it"


def test_policies_fit_into_managed_policies_even_for_the_longest_names() -> None:
    longest = spec(name="p" * 40, region="ap-southeast-1", account="123456789012")
    for name, items in [*documents(longest).items(), ("boundary", boundary.statements(longest))]:
        assert policy.size(policy.text(items)) <= policy.SIZE_LIMIT, name


def test_policy_text_is_what_iam_takes() -> None:
    for items in documents(spec()).values():
        body = json.loads(policy.text(items))
        assert body["Version"] == "2012-10-17"
        assert all(re.fullmatch(r"[A-Za-z0-9]+", statement["Sid"]) for statement in body["Statement"])
        assert len({statement["Sid"] for statement in body["Statement"]}) == len(body["Statement"])
