"""What CloudFormation can change in place, by type and property, and how; every other change is a replacement.

Which is which is said by each type's page in the CloudFormation template reference ("Update requires"). A property that only
matters when the resource is deleted (EmptyOnDelete, PendingWindowInDays) is changed without a call.

A replacement of something with a name of its own fails, as it does on AWS: two cannot have it. A change to a type that is
not here is not modelled.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.fake_aws.calls import AwsFault
from tests.fake_aws.resources import Maker

# (clients, physical id, attributes, new properties, names of those that changed) → new attributes
Changer = Callable[[Maker, str, dict[str, Any], dict[str, Any], set[str]], dict[str, Any]]


@dataclass(frozen=True)
class Changes:
    in_place: set[str]
    change: Changer
    # The property that gives it a name of the template's choice.
    name: str = ""


def replaces(kind: str, before: dict[str, Any], after: dict[str, Any]) -> bool:
    return not changed(before, after) <= _known(kind).in_place


def in_place(kind: str, name: str) -> bool:
    return kind in CHANGES and name in CHANGES[kind].in_place


def changed(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}


def change(
    kind: str, maker: Maker, physical: str, attributes: dict[str, Any], before: dict[str, Any], after: dict[str, Any]
) -> dict[str, Any]:
    return _known(kind).change(maker, physical, attributes, after, changed(before, after))


def check_name(kind: str, properties: dict[str, Any]) -> None:
    name = _known(kind).name
    if name and name in properties:
        raise AwsFault(
            "ValidationError",
            "CloudFormation cannot update a stack when a custom-named resource requires replacing. "
            f"Rename {properties[name]} and update the stack again.",
        )


def _known(kind: str) -> Changes:
    assert kind in CHANGES, f"a change of {kind} is not modelled"
    return CHANGES[kind]


def _nodes(
    make: Maker, physical: str, attributes: dict[str, Any], new: dict[str, Any], what: set[str]
) -> dict[str, Any]:
    eks = make.client("eks")
    cluster, _, group = physical.partition("/")
    where = {"clusterName": cluster, "nodegroupName": group}
    if "ScalingConfig" in what:
        scaling = {name[0].lower() + name[1:]: value for name, value in new["ScalingConfig"].items()}
        eks.update_nodegroup_config(**where, scalingConfig=scaling)
    renewed: dict[str, Any] = {"version": new["Version"]} if "Version" in what else {}
    if "LaunchTemplate" in what:
        template = new["LaunchTemplate"]
        renewed["launchTemplate"] = {"id": template["Id"], "version": template["Version"]}
    if renewed:
        eks.update_nodegroup_version(**where, **renewed)
    return attributes


def _cluster(
    make: Maker, physical: str, attributes: dict[str, Any], new: dict[str, Any], what: set[str]
) -> dict[str, Any]:
    eks = make.client("eks")
    if "ResourcesVpcConfig" in what:
        config = new["ResourcesVpcConfig"]
        open_to = {"publicAccessCidrs": config["PublicAccessCidrs"]} if "PublicAccessCidrs" in config else {}
        eks.update_cluster_config(
            name=physical,
            resourcesVpcConfig={
                "endpointPublicAccess": config["EndpointPublicAccess"],
                "endpointPrivateAccess": config["EndpointPrivateAccess"],
            }
            | open_to,
        )
    if "Version" in what:
        eks.update_cluster_version(name=physical, version=new["Version"])
    return attributes


def _launch_template(
    make: Maker, physical: str, attributes: dict[str, Any], new: dict[str, Any], what: set[str]
) -> dict[str, Any]:
    made = make.client("ec2").create_launch_template_version(
        LaunchTemplateId=physical, LaunchTemplateData=new["LaunchTemplateData"]
    )
    return attributes | {"LatestVersionNumber": str(made["LaunchTemplateVersion"]["VersionNumber"])}


def _role(
    make: Maker, physical: str, attributes: dict[str, Any], new: dict[str, Any], what: set[str]
) -> dict[str, Any]:
    iam = make.client("iam")
    if "PermissionsBoundary" in what:
        iam.put_role_permissions_boundary(RoleName=physical, PermissionsBoundary=new["PermissionsBoundary"])
    if "Policies" in what:
        for policy in new["Policies"]:
            iam.put_role_policy(
                RoleName=physical,
                PolicyName=policy["PolicyName"],
                PolicyDocument=json.dumps(policy["PolicyDocument"]),
            )
    return attributes


def _key(make: Maker, physical: str, attributes: dict[str, Any], new: dict[str, Any], what: set[str]) -> dict[str, Any]:
    if "Tags" in what:
        tags = [{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in new["Tags"]]
        make.client("kms").tag_resource(KeyId=physical, Tags=tags)
    return attributes


def _bucket(
    make: Maker, physical: str, attributes: dict[str, Any], new: dict[str, Any], what: set[str]
) -> dict[str, Any]:
    make.client("s3").put_bucket_tagging(Bucket=physical, Tagging={"TagSet": new["Tags"]})
    return attributes


def _repository(
    make: Maker, physical: str, attributes: dict[str, Any], new: dict[str, Any], what: set[str]
) -> dict[str, Any]:
    if "Tags" in what:
        make.client("ecr").tag_resource(resourceArn=attributes["Arn"], tags=new["Tags"])
    return attributes


def _file_system(
    make: Maker, physical: str, attributes: dict[str, Any], new: dict[str, Any], what: set[str]
) -> dict[str, Any]:
    make.client("efs").tag_resource(ResourceId=physical, Tags=new["FileSystemTags"])
    return attributes


def _tagged(
    make: Maker, physical: str, attributes: dict[str, Any], new: dict[str, Any], what: set[str]
) -> dict[str, Any]:
    make.client("ec2").create_tags(Resources=[attributes.get("AllocationId", physical)], Tags=new["Tags"])
    return attributes


def _none(
    make: Maker, physical: str, attributes: dict[str, Any], new: dict[str, Any], what: set[str]
) -> dict[str, Any]:
    raise AssertionError("every change is a replacement")


CHANGES: dict[str, Changes] = {
    "AWS::EC2::Instance": Changes(set(), _none),
    "AWS::EC2::LaunchTemplate": Changes({"LaunchTemplateData"}, _launch_template),
    "AWS::EC2::EIP": Changes({"Tags"}, _tagged),
    "AWS::EC2::NatGateway": Changes({"Tags"}, _tagged),
    "AWS::EC2::RouteTable": Changes({"Tags"}, _tagged),
    "AWS::EC2::Subnet": Changes(set(), _none),
    "AWS::EC2::VPC": Changes(set(), _none),
    "AWS::ECR::Repository": Changes({"EmptyOnDelete", "Tags"}, _repository),
    "AWS::EFS::FileSystem": Changes({"FileSystemTags"}, _file_system),
    "AWS::EKS::Cluster": Changes({"ResourcesVpcConfig", "Version"}, _cluster, "Name"),
    "AWS::EKS::Nodegroup": Changes({"ScalingConfig", "LaunchTemplate", "Version"}, _nodes, "NodegroupName"),
    "AWS::IAM::Role": Changes({"PermissionsBoundary", "Policies"}, _role, "RoleName"),
    "AWS::KMS::Key": Changes({"PendingWindowInDays", "Tags"}, _key),
    "AWS::S3::Bucket": Changes({"Tags"}, _bucket),
}
