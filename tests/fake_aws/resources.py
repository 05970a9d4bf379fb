"""What CloudFormation does for each resource type: its API calls, with every property taken or refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_NOTHING = object()


class Properties:
    """A resource's properties. What no maker takes is not modelled, at any depth."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = {key: self._wrapped(value) for key, value in values.items()}
        self.taken: set[str] = set()

    def _wrapped(self, value: Any) -> Any:
        if isinstance(value, dict):
            return Properties(value)
        return [self._wrapped(item) for item in value] if isinstance(value, list) else value

    def take(self, name: str, default: Any = _NOTHING) -> Any:
        """A property; one without a default must be there."""
        self.taken.add(name)
        if name not in self.values and default is not _NOTHING:
            return default
        return self.values[name]

    def plain(self, name: str, default: Any = _NOTHING) -> Any:
        """A property that is passed on whole: a policy document, a map of tags."""
        value = self.take(name, default)
        return _unwrapped(value)

    def all_taken(self, where: str) -> None:
        left = set(self.values) - self.taken
        assert not left, f"{where}: properties that are not modelled: {', '.join(sorted(left))}"
        for name, value in self.values.items():
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, Properties):
                    item.all_taken(f"{where}.{name}")


def _unwrapped(value: Any) -> Any:
    if isinstance(value, Properties):
        value.taken |= set(value.values)
        return {key: _unwrapped(inner) for key, inner in value.values.items()}
    return [_unwrapped(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class Maker:
    """Clients that act for whoever deploys, and the name CloudFormation would generate."""

    client: Callable[[str], Any]
    name: str


Result = tuple[str, dict[str, Any]]


def make(kind: str, maker: Maker, properties: Properties) -> Result:
    """(physical id, attributes)."""
    if kind not in MAKERS:
        raise ValueError(f"the resource type {kind} is not modelled")
    return MAKERS[kind](maker, properties)


def _tags(properties: Properties, kind: str, name: str = "Tags") -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": properties.plain(name)}]


def _vpc(make: Maker, p: Properties) -> Result:
    ec2 = make.client("ec2")
    vpc = ec2.create_vpc(CidrBlock=p.take("CidrBlock"), TagSpecifications=_tags(p, "vpc"))["Vpc"]["VpcId"]
    for name in ("EnableDnsHostnames", "EnableDnsSupport"):
        ec2.modify_vpc_attribute(VpcId=vpc, **{name: {"Value": p.take(name)}})
    return vpc, {}


def _internet_gateway(make: Maker, p: Properties) -> Result:
    made = make.client("ec2").create_internet_gateway(TagSpecifications=_tags(p, "internet-gateway"))
    return made["InternetGateway"]["InternetGatewayId"], {}


def _attachment(make: Maker, p: Properties) -> Result:
    make.client("ec2").attach_internet_gateway(InternetGatewayId=p.take("InternetGatewayId"), VpcId=p.take("VpcId"))
    return f"IGW|{p.take('VpcId')}", {}


def _subnet(make: Maker, p: Properties) -> Result:
    ec2 = make.client("ec2")
    subnet = ec2.create_subnet(
        VpcId=p.take("VpcId"),
        AvailabilityZone=p.take("AvailabilityZone"),
        CidrBlock=p.take("CidrBlock"),
        TagSpecifications=_tags(p, "subnet"),
    )["Subnet"]["SubnetId"]
    if p.take("MapPublicIpOnLaunch", False):
        ec2.modify_subnet_attribute(SubnetId=subnet, MapPublicIpOnLaunch={"Value": True})
    return subnet, {}


def _address(make: Maker, p: Properties) -> Result:
    made = make.client("ec2").allocate_address(Domain=p.take("Domain"), TagSpecifications=_tags(p, "elastic-ip"))
    return made["PublicIp"], {"AllocationId": made["AllocationId"]}


def _nat_gateway(make: Maker, p: Properties) -> Result:
    made = make.client("ec2").create_nat_gateway(
        AllocationId=p.take("AllocationId"), SubnetId=p.take("SubnetId"), TagSpecifications=_tags(p, "natgateway")
    )
    return made["NatGateway"]["NatGatewayId"], {}


def _route_table(make: Maker, p: Properties) -> Result:
    made = make.client("ec2").create_route_table(VpcId=p.take("VpcId"), TagSpecifications=_tags(p, "route-table"))
    return made["RouteTable"]["RouteTableId"], {}


def _route(make: Maker, p: Properties) -> Result:
    way = {name: p.take(name) for name in ("GatewayId", "NatGatewayId") if name in p.values}
    table, block = p.take("RouteTableId"), p.take("DestinationCidrBlock")
    make.client("ec2").create_route(RouteTableId=table, DestinationCidrBlock=block, **way)
    return f"{table}|{block}", {}


def _association(make: Maker, p: Properties) -> Result:
    made = make.client("ec2").associate_route_table(RouteTableId=p.take("RouteTableId"), SubnetId=p.take("SubnetId"))
    return made["AssociationId"], {}


def _endpoint(make: Maker, p: Properties) -> Result:
    names = ("VpcId", "VpcEndpointType", "ServiceName", "RouteTableIds")
    made = make.client("ec2").create_vpc_endpoint(
        **{name: p.take(name) for name in names}, TagSpecifications=_tags(p, "vpc-endpoint")
    )
    return made["VpcEndpoint"]["VpcEndpointId"], {}


def _security_group(make: Maker, p: Properties) -> Result:
    ec2 = make.client("ec2")
    group = ec2.create_security_group(
        GroupName=make.name,
        Description=p.take("GroupDescription"),
        VpcId=p.take("VpcId"),
        TagSpecifications=_tags(p, "security-group"),
    )["GroupId"]
    everything = [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]
    ec2.revoke_security_group_egress(GroupId=group, IpPermissions=everything)
    for direction in ("Egress", "Ingress"):
        rules = p.take(f"SecurityGroup{direction}", [])
        if rules:
            authorize = getattr(ec2, f"authorize_security_group_{direction.lower()}")
            authorize(GroupId=group, IpPermissions=[_rule(rule) for rule in rules])
    return group, {"GroupId": group}


def _rule(rule: Properties) -> dict[str, Any]:
    permission = {"IpProtocol": rule.take("IpProtocol")} | {
        name: rule.take(name) for name in ("FromPort", "ToPort") if name in rule.values
    }
    source: dict[str, Any] = {"Description": rule.take("Description")}
    if "SourceSecurityGroupId" in rule.values:
        return permission | {"UserIdGroupPairs": [source | {"GroupId": rule.take("SourceSecurityGroupId")}]}
    return permission | {"IpRanges": [source | {"CidrIp": rule.take("CidrIp")}]}


def _ingress(make: Maker, p: Properties) -> Result:
    make.client("ec2").authorize_security_group_ingress(GroupId=p.take("GroupId"), IpPermissions=[_rule(p)])
    return f"sgr-{make.name}", {}


def _launch_template(make: Maker, p: Properties) -> Result:
    known = {"BlockDeviceMappings", "MetadataOptions", "SecurityGroupIds", "TagSpecifications", "KeyName"}
    data = p.plain("LaunchTemplateData")
    assert set(data) <= known, f"launch template data that is not modelled: {set(data) - known}"
    made = make.client("ec2").create_launch_template(
        LaunchTemplateName=make.name, LaunchTemplateData=data, TagSpecifications=p.plain("TagSpecifications")
    )["LaunchTemplate"]
    return made["LaunchTemplateId"], {"LatestVersionNumber": str(made["LatestVersionNumber"])}


def _key(make: Maker, p: Properties) -> Result:
    kms = make.client("kms")
    tags = [{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in p.plain("Tags")]
    made = kms.create_key(Description=p.take("Description"), Policy=json.dumps(p.plain("KeyPolicy")), Tags=tags)[
        "KeyMetadata"
    ]
    if p.take("EnableKeyRotation"):
        kms.enable_key_rotation(KeyId=made["KeyId"])
    # Only for the day it is deleted.
    p.take("PendingWindowInDays")
    return made["KeyId"], {"Arn": made["Arn"]}


def _alias(make: Maker, p: Properties) -> Result:
    make.client("kms").create_alias(AliasName=p.take("AliasName"), TargetKeyId=p.take("TargetKeyId"))
    return p.take("AliasName"), {}


def _bucket(make: Maker, p: Properties) -> Result:
    s3, name = make.client("s3"), make.name
    (ownership,) = p.take("OwnershipControls").take("Rules")
    s3.create_bucket(
        Bucket=name,
        CreateBucketConfiguration={"LocationConstraint": s3.meta.region_name},
        ObjectOwnership=ownership.take("ObjectOwnership"),
    )
    (rule,) = p.take("BucketEncryption").take("ServerSideEncryptionConfiguration")
    default = rule.take("ServerSideEncryptionByDefault")
    s3.put_bucket_encryption(
        Bucket=name,
        ServerSideEncryptionConfiguration={
            "Rules": [
                {
                    "ApplyServerSideEncryptionByDefault": {
                        "SSEAlgorithm": default.take("SSEAlgorithm"),
                        "KMSMasterKeyID": default.take("KMSMasterKeyID"),
                    },
                    "BucketKeyEnabled": rule.take("BucketKeyEnabled"),
                }
            ]
        },
    )
    (lifecycle,) = p.take("LifecycleConfiguration").take("Rules")
    s3.put_bucket_lifecycle_configuration(
        Bucket=name,
        LifecycleConfiguration={
            "Rules": [
                {
                    "ID": lifecycle.take("Id"),
                    "Status": lifecycle.take("Status"),
                    "Filter": {"Prefix": ""},
                    "AbortIncompleteMultipartUpload": lifecycle.plain("AbortIncompleteMultipartUpload"),
                }
            ]
        },
    )
    s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=p.plain("PublicAccessBlockConfiguration"))
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=p.plain("VersioningConfiguration"))
    s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": p.plain("Tags")})
    return name, {"Arn": f"arn:aws:s3:::{name}"}


def _bucket_policy(make: Maker, p: Properties) -> Result:
    make.client("s3").put_bucket_policy(Bucket=p.take("Bucket"), Policy=json.dumps(p.plain("PolicyDocument")))
    return p.take("Bucket"), {}


def _repository(make: Maker, p: Properties) -> Result:
    made = make.client("ecr").create_repository(
        repositoryName=make.name,
        encryptionConfiguration={"encryptionType": p.take("EncryptionConfiguration").take("EncryptionType")},
        imageScanningConfiguration={"scanOnPush": p.take("ImageScanningConfiguration").take("ScanOnPush")},
        imageTagMutability=p.take("ImageTagMutability"),
        tags=p.plain("Tags"),
    )["repository"]
    # Only for the day it is deleted.
    p.take("EmptyOnDelete")
    return make.name, {"RepositoryUri": made["repositoryUri"], "Arn": made["repositoryArn"]}


def _file_system(make: Maker, p: Properties) -> Result:
    names = ("Encrypted", "KmsKeyId", "PerformanceMode", "ThroughputMode")
    made = make.client("efs").create_file_system(
        CreationToken=make.name, Tags=p.plain("FileSystemTags"), **{name: p.take(name) for name in names}
    )
    return made["FileSystemId"], {"Arn": made["FileSystemArn"]}


def _mount_target(make: Maker, p: Properties) -> Result:
    names = ("FileSystemId", "SubnetId", "SecurityGroups")
    made = make.client("efs").create_mount_target(**{name: p.take(name) for name in names})
    return made["MountTargetId"], {}


def _access_point(make: Maker, p: Properties) -> Result:
    user = {name: int(value) for name, value in p.plain("PosixUser").items()}
    made = make.client("efs").create_access_point(
        ClientToken=make.name[:64],
        FileSystemId=p.take("FileSystemId"),
        PosixUser=user,
        RootDirectory=p.plain("RootDirectory"),
        Tags=p.plain("AccessPointTags"),
    )
    return made["AccessPointId"], {}


def _log_group(make: Maker, p: Properties) -> Result:
    logs, name = make.client("logs"), p.take("LogGroupName")
    tags = {tag["Key"]: tag["Value"] for tag in p.plain("Tags")}
    logs.create_log_group(logGroupName=name, kmsKeyId=p.take("KmsKeyId"), tags=tags)
    logs.put_retention_policy(logGroupName=name, retentionInDays=p.take("RetentionInDays"))
    return name, {}


def _role(make: Maker, p: Properties) -> Result:
    iam, name = make.client("iam"), p.take("RoleName")
    assume = json.dumps(p.plain("AssumeRolePolicyDocument"))
    made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=assume, Tags=p.plain("Tags"))["Role"]
    for arn in p.take("ManagedPolicyArns", []):
        iam.attach_role_policy(RoleName=name, PolicyArn=arn)
    for policy in p.take("Policies", []):
        iam.put_role_policy(
            RoleName=name,
            PolicyName=policy.take("PolicyName"),
            PolicyDocument=json.dumps(policy.plain("PolicyDocument")),
        )
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
    "AWS::EC2::EIP": _address,
    "AWS::EC2::InternetGateway": _internet_gateway,
    "AWS::EC2::LaunchTemplate": _launch_template,
    "AWS::EC2::NatGateway": _nat_gateway,
    "AWS::EC2::Route": _route,
    "AWS::EC2::RouteTable": _route_table,
    "AWS::EC2::SecurityGroup": _security_group,
    "AWS::EC2::SecurityGroupIngress": _ingress,
    "AWS::EC2::Subnet": _subnet,
    "AWS::EC2::SubnetRouteTableAssociation": _association,
    "AWS::EC2::VPC": _vpc,
    "AWS::EC2::VPCEndpoint": _endpoint,
    "AWS::EC2::VPCGatewayAttachment": _attachment,
    "AWS::ECR::Repository": _repository,
    "AWS::EFS::AccessPoint": _access_point,
    "AWS::EFS::FileSystem": _file_system,
    "AWS::EFS::MountTarget": _mount_target,
    "AWS::EKS::AccessEntry": _access_entry,
    "AWS::EKS::Addon": _addon,
    "AWS::EKS::Cluster": _cluster,
    "AWS::EKS::Nodegroup": _nodegroup,
    "AWS::EKS::PodIdentityAssociation": _pod_identity,
    "AWS::IAM::Role": _role,
    "AWS::KMS::Alias": _alias,
    "AWS::KMS::Key": _key,
    "AWS::Logs::LogGroup": _log_group,
    "AWS::S3::Bucket": _bucket,
    "AWS::S3::BucketPolicy": _bucket_policy,
}
