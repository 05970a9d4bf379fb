"""The way in to a private API server: a small instance that AWS Systems Manager reaches from inside, so that no port is open and
no key exists. It forwards connections and keeps nothing."""

from __future__ import annotations

from typing import Any

from troposphere import GetAtt, Parameter, Ref, ec2, iam

from umiak.cluster.template.network import ANYWHERE, NetworkParts
from umiak.cluster.template.parts import Parts
from umiak.cluster.template.roles import RoleParts, role_name

TYPE, DISK_GB = "t4g.nano", 8
HTTPS = 443
# AWS keeps the newest Amazon Linux 2023 here; it has the agent of Systems Manager in it.
IMAGE = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64"


def add(parts: Parts, net: NetworkParts, roles: RoleParts) -> None:
    parts.template.add_parameter(
        Parameter(
            "BastionImage",
            Type="AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>",
            Default=IMAGE,
            Description="Where AWS publishes the image of the instance by which `umiak cluster connect` reaches the API server",
        )
    )
    group = parts.add(
        ec2.SecurityGroup(
            "BastionSecurityGroup",
            GroupDescription=f"umiak cluster {parts.spec.name}: the way to the API server, nothing is let in",
            VpcId=Ref(net.vpc),
            SecurityGroupEgress=[
                ec2.SecurityGroupRule(
                    IpProtocol="tcp",
                    FromPort=HTTPS,
                    ToPort=HTTPS,
                    CidrIp=ANYWHERE,
                    Description="Systems Manager and the API server",
                )
            ],
            Tags=parts.tags("bastion"),
        )
    )
    parts.add(
        ec2.SecurityGroupIngress(
            "BastionToApiServer",
            GroupId=GetAtt("Cluster", "ClusterSecurityGroupId"),
            IpProtocol="tcp",
            FromPort=HTTPS,
            ToPort=HTTPS,
            SourceSecurityGroupId=GetAtt(group, "GroupId"),
            Description="umiak cluster connect",
        )
    )
    profile = parts.add(
        iam.InstanceProfile(
            "BastionProfile",
            InstanceProfileName=role_name(parts.spec.name, parts.spec.region, "bastion"),
            Roles=[Ref(roles.bastion)],
        )
    )
    parts.add(_instance(parts, net, group, profile))
    parts.outputs["Bastion"] = (Ref("Bastion"), "The instance by which `umiak cluster connect` reaches the API server")


def _instance(parts: Parts, net: NetworkParts, group: Any, profile: Any) -> Any:
    return ec2.Instance(
        "Bastion",
        ImageId=Ref("BastionImage"),
        InstanceType=TYPE,
        # Where nodes are, there is a way to Systems Manager.
        SubnetId=Ref(net.node_subnet),
        SecurityGroupIds=[GetAtt(group, "GroupId")],
        IamInstanceProfile=Ref(profile),
        MetadataOptions=ec2.MetadataOptions(HttpEndpoint="enabled", HttpPutResponseHopLimit=1, HttpTokens="required"),
        BlockDeviceMappings=[
            ec2.BlockDeviceMapping(
                DeviceName="/dev/xvda",
                Ebs=ec2.EbsBlockDevice(DeleteOnTermination=True, Encrypted=True, VolumeSize=DISK_GB, VolumeType="gp3"),
            )
        ],
        PropagateTagsToVolumeOnCreation=True,
        Tags=parts.tags("bastion"),
        DependsOn=list(net.way_out),
    )
