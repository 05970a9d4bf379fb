"""What CloudFormation does to remove a resource of each type: its API calls. What is gone already counts as removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from tests.fake_aws.resources import Maker

# (clients, physical id, attributes, properties as they were made)
Remover = Callable[[Maker, str, dict[str, Any], dict[str, Any]], None]

_GONE = ("NotFound", "NoSuch", "Gateway.NotAttached", "NotFoundException", "does not exist", "was not found")


def remove(kind: str, maker: Maker, physical: str, attributes: dict[str, Any], properties: dict[str, Any]) -> None:
    try:
        REMOVERS[kind](maker, physical, attributes, properties)
    except ClientError as error:
        if not any(word in error.response["Error"]["Code"] for word in _GONE):
            raise


def _ec2(operation: str, name: str) -> Remover:
    return lambda make, physical, attributes, properties: getattr(make.client("ec2"), operation)(**{name: physical})


def _eks(operation: str, **names: str) -> Remover:
    def run(make: Maker, physical: str, attributes: dict[str, Any], properties: dict[str, Any]) -> None:
        getattr(make.client("eks"), operation)(**{param: properties[name] for param, name in names.items()})

    return run


def _address(make: Maker, physical: str, attributes: dict[str, Any], properties: dict[str, Any]) -> None:
    make.client("ec2").release_address(AllocationId=attributes["AllocationId"])


def _endpoint(make: Maker, physical: str, attributes: dict[str, Any], properties: dict[str, Any]) -> None:
    make.client("ec2").delete_vpc_endpoints(VpcEndpointIds=[physical])


def _detach(make: Maker, physical: str, attributes: dict[str, Any], properties: dict[str, Any]) -> None:
    names = ("InternetGatewayId", "VpcId")
    make.client("ec2").detach_internet_gateway(**{name: properties[name] for name in names})


def _route(make: Maker, physical: str, attributes: dict[str, Any], properties: dict[str, Any]) -> None:
    table, _, block = physical.partition("|")
    make.client("ec2").delete_route(RouteTableId=table, DestinationCidrBlock=block)


def _ingress(make: Maker, physical: str, attributes: dict[str, Any], properties: dict[str, Any]) -> None:
    rule = {
        "IpProtocol": properties["IpProtocol"],
        "FromPort": properties["FromPort"],
        "ToPort": properties["ToPort"],
        "UserIdGroupPairs": [
            {"GroupId": properties["SourceSecurityGroupId"], "Description": properties["Description"]}
        ],
    }
    make.client("ec2").revoke_security_group_ingress(GroupId=properties["GroupId"], IpPermissions=[rule])


def _repository(make: Maker, physical: str, attributes: dict[str, Any], properties: dict[str, Any]) -> None:
    make.client("ecr").delete_repository(repositoryName=physical, force=properties["EmptyOnDelete"])


def _role(make: Maker, physical: str, attributes: dict[str, Any], properties: dict[str, Any]) -> None:
    iam = make.client("iam")
    for arn in properties.get("ManagedPolicyArns", []):
        iam.detach_role_policy(RoleName=physical, PolicyArn=arn)
    for policy in properties.get("Policies", []):
        iam.delete_role_policy(RoleName=physical, PolicyName=policy["PolicyName"])
    iam.delete_role(RoleName=physical)


def _instance(make: Maker, physical: str, attributes: dict[str, Any], properties: dict[str, Any]) -> None:
    make.client("ec2").terminate_instances(InstanceIds=[physical])


def _profile(make: Maker, physical: str, attributes: dict[str, Any], properties: dict[str, Any]) -> None:
    iam = make.client("iam")
    for role in properties["Roles"]:
        iam.remove_role_from_instance_profile(InstanceProfileName=physical, RoleName=role)
    iam.delete_instance_profile(InstanceProfileName=physical)


def _key(make: Maker, physical: str, attributes: dict[str, Any], properties: dict[str, Any]) -> None:
    kms = make.client("kms")
    if kms.describe_key(KeyId=physical)["KeyMetadata"]["KeyState"] != "PendingDeletion":
        kms.schedule_key_deletion(KeyId=physical, PendingWindowInDays=properties["PendingWindowInDays"])


def _one(service: str, operation: str, name: str) -> Remover:
    return lambda make, physical, attributes, properties: getattr(make.client(service), operation)(**{name: physical})


def _nodes(make: Maker, physical: str, attributes: dict[str, Any], properties: dict[str, Any]) -> None:
    cluster, _, group = physical.partition("/")
    make.client("eks").delete_nodegroup(clusterName=cluster, nodegroupName=group)


def _pod_identity(make: Maker, physical: str, attributes: dict[str, Any], properties: dict[str, Any]) -> None:
    make.client("eks").delete_pod_identity_association(clusterName=properties["ClusterName"], associationId=physical)


REMOVERS: dict[str, Remover] = {
    "AWS::EC2::EIP": _address,
    "AWS::EC2::Instance": _instance,
    "AWS::EC2::InternetGateway": _ec2("delete_internet_gateway", "InternetGatewayId"),
    "AWS::EC2::LaunchTemplate": _ec2("delete_launch_template", "LaunchTemplateId"),
    "AWS::EC2::NatGateway": _ec2("delete_nat_gateway", "NatGatewayId"),
    "AWS::EC2::Route": _route,
    "AWS::EC2::RouteTable": _ec2("delete_route_table", "RouteTableId"),
    "AWS::EC2::SecurityGroup": _ec2("delete_security_group", "GroupId"),
    "AWS::EC2::SecurityGroupIngress": _ingress,
    "AWS::EC2::Subnet": _ec2("delete_subnet", "SubnetId"),
    "AWS::EC2::SubnetRouteTableAssociation": _ec2("disassociate_route_table", "AssociationId"),
    "AWS::EC2::VPC": _ec2("delete_vpc", "VpcId"),
    "AWS::EC2::VPCEndpoint": _endpoint,
    "AWS::EC2::VPCGatewayAttachment": _detach,
    "AWS::ECR::Repository": _repository,
    "AWS::EFS::AccessPoint": _one("efs", "delete_access_point", "AccessPointId"),
    "AWS::EFS::FileSystem": _one("efs", "delete_file_system", "FileSystemId"),
    "AWS::EFS::MountTarget": _one("efs", "delete_mount_target", "MountTargetId"),
    "AWS::EKS::AccessEntry": _eks("delete_access_entry", clusterName="ClusterName", principalArn="PrincipalArn"),
    "AWS::EKS::Addon": _eks("delete_addon", clusterName="ClusterName", addonName="AddonName"),
    "AWS::EKS::Cluster": _eks("delete_cluster", name="Name"),
    "AWS::EKS::Nodegroup": _nodes,
    "AWS::EKS::PodIdentityAssociation": _pod_identity,
    "AWS::IAM::InstanceProfile": _profile,
    "AWS::IAM::Role": _role,
    "AWS::KMS::Alias": _one("kms", "delete_alias", "AliasName"),
    "AWS::KMS::Key": _key,
    "AWS::Logs::LogGroup": _one("logs", "delete_log_group", "logGroupName"),
    "AWS::S3::Bucket": _one("s3", "delete_bucket", "Bucket"),
    "AWS::S3::BucketPolicy": _one("s3", "delete_bucket_policy", "Bucket"),
}
