"""Makers of EC2 resources: the API calls of CloudFormation, with every property taken or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fake_aws.properties import Maker, Properties, Result


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


def _instance(make: Maker, p: Properties) -> Result:
    names = ("ImageId", "InstanceType", "SubnetId", "SecurityGroupIds", "MetadataOptions", "BlockDeviceMappings")
    kinds = ("instance", "volume") if p.take("PropagateTagsToVolumeOnCreation") else ("instance",)
    made = make.client("ec2").run_instances(
        **{name: p.plain(name) for name in names},
        IamInstanceProfile={"Name": p.take("IamInstanceProfile")},
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": kind, "Tags": p.plain("Tags")} for kind in kinds],
    )
    return made["Instances"][0]["InstanceId"], {}


MAKERS: dict[str, Callable[[Maker, Properties], Result]] = {
    "AWS::EC2::EIP": _address,
    "AWS::EC2::Instance": _instance,
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
}
