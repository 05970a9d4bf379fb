"""What AWS asks IAM about a call: the action, the resource it is about, and what the request says (the service authorization
reference lists both for each action). Tags given at creation are a question of their own, and so is a role that is passed on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moto.iam.models import iam_backends

from tests.fake_aws.calls import Call
from tests.fake_aws.people import ACCOUNT

if TYPE_CHECKING:
    from tests.fake_aws.server import FakeAws


@dataclass(frozen=True)
class Question:
    action: str
    # None: not modelled, so policies are not held against it.
    resource: str | None
    has: dict[str, list[str]] = field(default_factory=dict)


def asked(fake: FakeAws, call: Call) -> Iterator[Question]:
    """Every question of a call; all must be answered with yes."""
    always = {"aws:RequestedRegion": [call.region]}
    if call.via:
        always["aws:CalledVia"] = [f"{call.via}.amazonaws.com"]
    person = fake.people.by_key[call.key_id]
    if person.mfa is not None:
        always["aws:MultiFactorAuthPresent"] = [str(person.mfa).lower()]
    tags = _request_tags(call)
    has = always | tags | _iam(call)
    if call.service == "cloudformation" and call.params.get("ChangeSetType") == "IMPORT":
        has["cloudformation:ImportResourceTypes"] = [item["ResourceType"] for item in call.params["ResourcesToImport"]]
    for resource in _resources(call) or [None]:
        yield Question(call.action, resource, has | _resource_tags(fake, call, resource))
    # EC2 user guide, "Grant permission to tag resources during creation"; EFS user guide, the same.
    if tags and call.service == "ec2" and call.operation != "CreateTags":
        for kind in {entry["ResourceType"] for entry in call.params["TagSpecifications"]}:
            arn = f"arn:aws:ec2:{call.region}:{ACCOUNT}:{kind}/*"
            yield Question("ec2:CreateTags", arn, always | tags | {"ec2:CreateAction": [call.operation]})
    if tags and call.service == "efs" and call.operation.startswith("Create"):
        kind = {"CreateFileSystem": "file-system", "CreateAccessPoint": "access-point"}[call.operation]
        arn = f"arn:aws:elasticfilesystem:{call.region}:{ACCOUNT}:{kind}/*"
        yield Question(
            "elasticfilesystem:TagResource", arn, always | tags | {"elasticfilesystem:CreateAction": [call.operation]}
        )
    if tags and call.service == "kms" and call.operation == "CreateKey":
        yield Question("kms:TagResource", f"arn:aws:kms:{call.region}:{ACCOUNT}:key/*", always | tags)
    for role, service in _passed(call):
        yield Question("iam:PassRole", role, always | {"iam:PassedToService": [service]})


def _request_tags(call: Call) -> dict[str, list[str]]:
    params = call.params
    given: Any = params.get("Tags") or params.get("tags") or []
    for entry in params.get("TagSpecifications", []):
        given = [*given, *entry.get("Tags", [])]
    pairs = given.items() if isinstance(given, dict) else [_pair(entry) for entry in given if isinstance(entry, dict)]
    tags = {f"aws:RequestTag/{key}": [value] for key, value in pairs}
    return tags | ({"aws:TagKeys": [key for key, _ in pairs]} if tags else {})


def _pair(entry: dict[str, str]) -> tuple[str, str]:
    return entry.get("Key") or entry["TagKey"], entry.get("Value") or entry.get("TagValue", "")


def _iam(call: Call) -> dict[str, list[str]]:
    """The boundary that is set, or that the role has; and the policy that is attached. Only on the actions that have these keys
    (service authorization reference, IAM)."""
    if call.service != "iam":
        return {}
    has = {}
    if call.operation in ("CreateRole", "PutRolePermissionsBoundary"):
        if boundary := call.params.get("PermissionsBoundary"):
            has["iam:PermissionsBoundary"] = [boundary]
    elif call.operation in (
        "AttachRolePolicy",
        "DeleteRolePermissionsBoundary",
        "DeleteRolePolicy",
        "DetachRolePolicy",
        "PutRolePolicy",
    ):
        role = role_named(call.params["RoleName"])
        if role and role.permissions_boundary_arn:
            has["iam:PermissionsBoundary"] = [role.permissions_boundary_arn]
    if call.operation in ("AttachRolePolicy", "DetachRolePolicy"):
        has["iam:PolicyARN"] = [call.params["PolicyArn"]]
    return has


def role_named(name: str) -> Any:
    return next((role for role in iam_backends[ACCOUNT]["aws"].roles.values() if role.name == name), None)


# Parameter of an EC2 call that names one thing → its kind.
_EC2 = {
    "AllocationId": "elastic-ip",
    "GroupId": "security-group",
    "InstanceIds": "instance",
    "InternetGatewayId": "internet-gateway",
    "LaunchTemplateId": "launch-template",
    "NatGatewayId": "natgateway",
    "NetworkInterfaceId": "network-interface",
    "RouteTableId": "route-table",
    "SubnetId": "subnet",
    "VolumeId": "volume",
    "VpcEndpointIds": "vpc-endpoint",
    "VpcId": "vpc",
}
_EC2_PREFIXES = {
    "eipalloc": "elastic-ip",
    "eni": "network-interface",
    "i": "instance",
    "igw": "internet-gateway",
    "lt": "launch-template",
    "nat": "natgateway",
    "rtb": "route-table",
    "sg": "security-group",
    "subnet": "subnet",
    "vol": "volume",
    "vpc": "vpc",
    "vpce": "vpc-endpoint",
}
# Parameter of an IAM call → the kind of thing it names.
_IAM = {"InstanceProfileName": "instance-profile", "RoleName": "role", "UserName": "user", "PolicyName": "policy"}


def _resources(call: Call) -> list[str | None]:
    params, where = call.params, f"{call.region}:{ACCOUNT}"
    if call.service == "ec2" and call.operation in ("CreateTags", "DeleteTags"):
        return [f"arn:aws:ec2:{where}:{_EC2_PREFIXES[i.partition('-')[0]]}/{i}" for i in params["Resources"]]
    if call.service == "ec2" and call.operation.startswith(("Delete", "Detach", "Release", "Terminate")):
        (name,) = [name for name in _EC2 if name in params][:1]
        values = params[name] if isinstance(params[name], list) else [params[name]]
        return [f"arn:aws:ec2:{where}:{_EC2[name]}/{value}" for value in values]
    if call.service == "ecr" and "repositoryName" in params:
        return [f"arn:aws:ecr:{where}:repository/{params['repositoryName']}"]
    if call.service == "efs" and call.operation in ("TagResource", "UntagResource"):
        kind = "access-point" if params["ResourceId"].startswith("fsap-") else "file-system"
        return [f"arn:aws:elasticfilesystem:{where}:{kind}/{params['ResourceId']}"]
    if call.service == "efs" and call.operation.startswith(("Delete", "PutFileSystemPolicy")):
        if "AccessPointId" in params:
            return [f"arn:aws:elasticfilesystem:{where}:access-point/{params['AccessPointId']}"]
        if "FileSystemId" in params:
            return [f"arn:aws:elasticfilesystem:{where}:file-system/{params['FileSystemId']}"]
    if call.service == "iam":
        if call.operation in _OF_POLICIES:
            return [params["PolicyArn"]]
        return [f"arn:aws:iam::{ACCOUNT}:{kind}/{params[name]}" for name, kind in _IAM.items() if name in params][:1]
    if call.service == "s3" and "Bucket" in params:
        return [f"arn:aws:s3:::{params['Bucket']}" + (f"/{params['Key']}" if "Key" in params else "")]
    if call.service == "kms" and call.operation == "CreateKey":
        return [f"arn:aws:kms:{where}:key/*"]
    if call.service == "kms" and "KeyId" in params:
        return [f"arn:aws:kms:{where}:key/{str(params['KeyId']).rpartition('/')[2]}"]
    if call.service == "ssm" and call.operation == "GetParameters":
        return [f"arn:aws:ssm:{call.region}::parameter{name}" for name in params["Names"]]
    if call.service == "ssm" and call.operation == "StartSession":
        owner = "" if params["DocumentName"].startswith("AWS-") else ACCOUNT
        return [
            f"arn:aws:ec2:{where}:instance/{params['Target']}",
            f"arn:aws:ssm:{call.region}:{owner}:document/{params['DocumentName']}",
        ]
    if call.service in ("elb", "elbv2") and call.operation.startswith("Delete"):
        if arn := params.get("LoadBalancerArn"):
            return [arn]
        return [f"arn:aws:elasticloadbalancing:{where}:loadbalancer/{params['LoadBalancerName']}"]
    return []


_OF_POLICIES = {
    "CreatePolicyVersion",
    "DeletePolicy",
    "DeletePolicyVersion",
    "GetPolicy",
    "GetPolicyVersion",
    "ListPolicyVersions",
    "SetDefaultPolicyVersion",
}


def _resource_tags(fake: FakeAws, call: Call, resource: str | None) -> dict[str, list[str]]:
    if resource is None:
        return {}
    tags = fake.tagging.of(resource, call.region).items()
    if call.service == "kms" and fake.tagging.is_new(resource):
        tags = {}.items()
    own = {f"ssm:resourceTag/{key}": [value] for key, value in tags} if call.service == "ssm" else {}
    return own | {f"aws:ResourceTag/{key}": [value] for key, value in tags}


# (service, operation) → (where the roles are in its parameters, the service that will use them).
_PASSING = {
    ("eks", "CreateCluster"): ("roleArn", "eks.amazonaws.com"),
    ("eks", "CreateNodegroup"): ("nodeRole", "ec2.amazonaws.com"),
    ("eks", "CreatePodIdentityAssociation"): ("roleArn", "pods.eks.amazonaws.com"),
    ("lambda", "CreateFunction"): ("Role", "lambda.amazonaws.com"),
}


def _passed(call: Call) -> Iterator[tuple[str, str]]:
    if (call.service, call.operation) in _PASSING:
        name, service = _PASSING[call.service, call.operation]
        yield call.params[name], service
    for entry in call.params.get("podIdentityAssociations", []) if call.operation == "CreateAddon" else []:
        yield entry["roleArn"], "pods.eks.amazonaws.com"
    profile = call.params.get("IamInstanceProfile") if call.operation == "RunInstances" else None
    if profile:
        made = iam_backends[ACCOUNT]["aws"].get_instance_profile(profile["Name"])
        yield from ((role.arn, "ec2.amazonaws.com") for role in made.roles)
    if call.operation == "AddRoleToInstanceProfile":
        yield f"arn:aws:iam::{ACCOUNT}:role/{call.params['RoleName']}", "ec2.amazonaws.com"
