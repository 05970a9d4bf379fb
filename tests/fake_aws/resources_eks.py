"""Makers of EKS resources, logs and roles: the API calls of CloudFormation, with every property taken or refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.fake_aws.properties import Maker, Properties, Result


def _log_group(make: Maker, p: Properties) -> Result:
    logs, name = make.client("logs"), p.take("LogGroupName")
    tags = {tag["Key"]: tag["Value"] for tag in p.plain("Tags")}
    logs.create_log_group(logGroupName=name, kmsKeyId=p.take("KmsKeyId"), tags=tags)
    logs.put_retention_policy(logGroupName=name, retentionInDays=p.take("RetentionInDays"))
    return name, {}


def _role(make: Maker, p: Properties) -> Result:
    iam, name = make.client("iam"), p.take("RoleName")
    assume = json.dumps(p.plain("AssumeRolePolicyDocument"))
    bound = {"PermissionsBoundary": p.take("PermissionsBoundary")} if "PermissionsBoundary" in p.values else {}
    made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=assume, Tags=p.plain("Tags"), **bound)["Role"]
    for arn in p.take("ManagedPolicyArns", []):
        iam.attach_role_policy(RoleName=name, PolicyArn=arn)
    for policy in p.take("Policies", []):
        iam.put_role_policy(
            RoleName=name,
            PolicyName=policy.take("PolicyName"),
            PolicyDocument=json.dumps(policy.plain("PolicyDocument")),
        )
    return name, {"Arn": made["Arn"]}


def _profile(make: Maker, p: Properties) -> Result:
    iam, name = make.client("iam"), p.take("InstanceProfileName")
    made = iam.create_instance_profile(InstanceProfileName=name)["InstanceProfile"]
    (role,) = p.take("Roles")
    iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=role)
    return name, {"Arn": made["Arn"]}


def _lower(value: Any) -> Any:
    """EKS says in its API what CloudFormation says with a capital."""
    if isinstance(value, dict):
        return {key[0].lower() + key[1:]: _lower(inner) for key, inner in value.items()}
    return [_lower(item) for item in value] if isinstance(value, list) else value


def _tag_map(p: Properties) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in p.plain("Tags")}


def _cluster(make: Maker, p: Properties) -> Result:
    names = (
        "Name",
        "Version",
        "RoleArn",
        "AccessConfig",
        "BootstrapSelfManagedAddons",
        "EncryptionConfig",
        "KubernetesNetworkConfig",
        "ResourcesVpcConfig",
        "UpgradePolicy",
    )
    enabled = p.take("Logging").take("ClusterLogging").take("EnabledTypes")
    logging = {"clusterLogging": [{"types": [entry.take("Type") for entry in enabled], "enabled": True}]}
    made = make.client("eks").create_cluster(
        **_lower({name: p.plain(name) for name in names}), logging=logging, tags=_tag_map(p)
    )["cluster"]
    attributes = {
        "Arn": made["arn"],
        "Endpoint": made["endpoint"],
        "CertificateAuthorityData": made["certificateAuthority"]["data"],
        "ClusterSecurityGroupId": made["resourcesVpcConfig"]["clusterSecurityGroupId"],
    }
    return made["name"], attributes


def _access_entry(make: Maker, p: Properties) -> Result:
    eks = make.client("eks")
    who = {"clusterName": p.take("ClusterName"), "principalArn": p.take("PrincipalArn")}
    eks.create_access_entry(**who, tags=_tag_map(p))
    for policy in p.take("AccessPolicies"):
        eks.associate_access_policy(
            **who, policyArn=policy.take("PolicyArn"), accessScope=_lower(policy.plain("AccessScope"))
        )
    return f"{who['clusterName']}|{who['principalArn']}", {}


def _addon(make: Maker, p: Properties) -> Result:
    names = ("ClusterName", "AddonName", "ResolveConflicts", "ConfigurationValues", "PodIdentityAssociations")
    params = _lower({name: p.plain(name) for name in names if name in p.values})
    make.client("eks").create_addon(**params, tags=_tag_map(p))
    return f"{params['clusterName']}|{params['addonName']}", {}


def _nodegroup(make: Maker, p: Properties) -> Result:
    names = (
        "ClusterName",
        "NodeRole",
        "Subnets",
        "AmiType",
        "CapacityType",
        "InstanceTypes",
        "LaunchTemplate",
        "ScalingConfig",
        "UpdateConfig",
    )
    params = _lower({name: p.plain(name) for name in names})
    if "Version" in p.values:
        params["version"] = p.take("Version")
    params["nodegroupName"] = p.take("NodegroupName", make.name)
    make.client("eks").create_nodegroup(**params, tags=p.plain("Tags"))
    return f"{params['clusterName']}/{params['nodegroupName']}", {}


def _pod_identity(make: Maker, p: Properties) -> Result:
    names = ("ClusterName", "Namespace", "ServiceAccount", "RoleArn")
    made = make.client("eks").create_pod_identity_association(
        **_lower({name: p.take(name) for name in names}), tags=_tag_map(p)
    )
    return made["association"]["associationId"], {}


MAKERS: dict[str, Callable[[Maker, Properties], Result]] = {
    "AWS::EKS::AccessEntry": _access_entry,
    "AWS::EKS::Addon": _addon,
    "AWS::EKS::Cluster": _cluster,
    "AWS::EKS::Nodegroup": _nodegroup,
    "AWS::EKS::PodIdentityAssociation": _pod_identity,
    "AWS::IAM::InstanceProfile": _profile,
    "AWS::IAM::Role": _role,
    "AWS::Logs::LogGroup": _log_group,
}
