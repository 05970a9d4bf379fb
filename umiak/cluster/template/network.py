"""VPC, subnets, routes and the way to the internet. Security groups stand beside what they protect, not here."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any

from troposphere import GetAtt, Ref, Sub, ec2

from umiak.cluster.template.parts import Parts

ANYWHERE = "0.0.0.0/0"


@dataclass(frozen=True)
class NetworkParts:
    vpc: Any
    private_subnets: list[Any]
    node_subnet: Any
    # What must exist before a node can pull an image.
    way_out: list[str]


def subnets(cidr: str, zones: int) -> tuple[list[str], list[str]]:
    """(private, public) ranges: a quarter of the VPC for each zone's pods, a sixteenth for each public subnet."""
    quarters = list(ipaddress.IPv4Network(cidr).subnets(prefixlen_diff=2))
    sixteenths = list(quarters[3].subnets(prefixlen_diff=2))
    return [str(block) for block in quarters[:zones]], [str(block) for block in sixteenths[:zones]]


def add(parts: Parts) -> NetworkParts:
    spec, add = parts.spec, parts.add
    nat = spec.network.nat
    vpc = add(
        ec2.VPC(
            "Vpc",
            CidrBlock=spec.network.cidr,
            EnableDnsHostnames=True,
            EnableDnsSupport=True,
            Tags=parts.tags("vpc"),
        )
    )
    gateway = add(ec2.InternetGateway("InternetGateway", Tags=parts.tags("internet")))
    attached = add(ec2.VPCGatewayAttachment("GatewayAttachment", VpcId=Ref(vpc), InternetGatewayId=Ref(gateway)))
    public_routes = add(ec2.RouteTable("PublicRoutes", VpcId=Ref(vpc), Tags=parts.tags("public")))
    public_way = add(
        ec2.Route(
            "PublicDefaultRoute",
            RouteTableId=Ref(public_routes),
            DestinationCidrBlock=ANYWHERE,
            GatewayId=Ref(gateway),
            DependsOn=attached.title,
        )
    )
    private_ranges, public_ranges = subnets(spec.network.cidr, len(spec.zones))
    public, private, private_tables, ways = [], [], [], [public_way.title]
    gateways: list[Any] = []
    for number, (zone, private_range, public_range) in enumerate(
        zip(spec.zones, private_ranges, public_ranges, strict=True), 1
    ):
        public.append(
            add(
                ec2.Subnet(
                    f"PublicSubnet{number}",
                    VpcId=Ref(vpc),
                    AvailabilityZone=zone,
                    CidrBlock=public_range,
                    # Only where nodes live here: without a NAT gateway a public address is their way out.
                    MapPublicIpOnLaunch=nat == "none",
                    Tags=parts.tags(f"public-{zone}", **{"kubernetes.io/role/elb": "1"}),
                )
            )
        )
        add(
            ec2.SubnetRouteTableAssociation(
                f"PublicSubnetRoutes{number}", SubnetId=Ref(public[-1]), RouteTableId=Ref(public_routes)
            )
        )
        private.append(
            add(
                ec2.Subnet(
                    f"PrivateSubnet{number}",
                    VpcId=Ref(vpc),
                    AvailabilityZone=zone,
                    CidrBlock=private_range,
                    Tags=parts.tags(f"private-{zone}", **{"kubernetes.io/role/internal-elb": "1"}),
                )
            )
        )
        table = add(ec2.RouteTable(f"PrivateRoutes{number}", VpcId=Ref(vpc), Tags=parts.tags(f"private-{zone}")))
        private_tables.append(table)
        add(
            ec2.SubnetRouteTableAssociation(
                f"PrivateSubnetRoutes{number}", SubnetId=Ref(private[-1]), RouteTableId=Ref(table)
            )
        )
        if nat == "per-zone" or (nat == "single" and number == 1):
            gateways.append(_nat_gateway(parts, number, zone, public[-1], attached))
        if nat != "none":
            way = add(
                ec2.Route(
                    f"PrivateDefaultRoute{number}",
                    RouteTableId=Ref(table),
                    DestinationCidrBlock=ANYWHERE,
                    NatGatewayId=Ref(gateways[-1]),
                )
            )
            ways.append(way.title)
    add(
        ec2.VPCEndpoint(
            "S3Endpoint",
            VpcId=Ref(vpc),
            VpcEndpointType="Gateway",
            ServiceName=Sub("com.amazonaws.${AWS::Region}.s3"),
            RouteTableIds=[Ref(public_routes), *map(Ref, private_tables)],
            Tags=parts.tags("s3"),
        )
    )
    return NetworkParts(vpc, private, public[0] if nat == "none" else private[0], ways)


def _nat_gateway(parts: Parts, number: int, zone: str, subnet: Any, attached: Any) -> Any:
    address = parts.add(
        ec2.EIP(f"NatAddress{number}", Domain="vpc", DependsOn=attached.title, Tags=parts.tags(f"nat-{zone}"))
    )
    return parts.add(
        ec2.NatGateway(
            f"NatGateway{number}",
            AllocationId=GetAtt(address, "AllocationId"),
            SubnetId=Ref(subnet),
            Tags=parts.tags(f"nat-{zone}"),
        )
    )
