"""What GuardDuty puts into a VPC of its own accord: an interface endpoint and a security group, both with the tag
GuardDutyManaged = true (GuardDuty user guide, "Runtime Monitoring", and terraform-provider-aws pull request 46953). They keep
subnets and the VPC from being deleted, and as long as there is a cluster to watch they come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moto.ec2.models import ec2_backends

from tests.fake_aws.calls import Call
from tests.fake_aws.people import ACCOUNT

if TYPE_CHECKING:
    from tests.fake_aws.server import FakeAws

# An endpoint's interfaces stay so long after its deletion, and a new endpoint comes so much later.
LINGERS, RETURNS = 45.0, 100.0
TAGS = [{"Key": "GuardDutyManaged", "Value": "true"}]


class GuardDuty:
    def __init__(self, fake: FakeAws) -> None:
        self.fake = fake

    def inject(self, cluster: str = "paddle", region: str = "us-west-2") -> None:
        config = self.fake.eks_in(region).clusters[cluster]["resourcesVpcConfig"]
        self._put(region, config["vpcId"], config["subnetIds"])

    def _put(self, region: str, vpc: str, subnets: list[str]) -> None:
        ec2, backend = self.fake.client("ec2", region=region, via="guardduty"), ec2_backends[ACCOUNT][region]
        name = f"GuardDutyManagedSecurityGroup-{vpc}"
        there = [g.id for groups in backend.groups.values() for g in groups.values() if g.name == name]
        group = (
            there[0]
            if there
            else ec2.create_security_group(
                GroupName=name,
                Description="Associated with VPC endpoint for GuardDuty",
                VpcId=vpc,
                TagSpecifications=[{"ResourceType": "security-group", "Tags": TAGS}],
            )["GroupId"]
        )
        made = ec2.create_vpc_endpoint(
            VpcId=vpc,
            VpcEndpointType="Interface",
            ServiceName=f"com.amazonaws.{region}.guardduty-data",
            RouteTableIds=[],
            TagSpecifications=[{"ResourceType": "vpc-endpoint", "Tags": TAGS}],
        )["VpcEndpoint"]["VpcEndpointId"]
        for subnet in subnets:
            self.fake.interfaces.add(region, subnet, (group,), f"VPC Endpoint Interface {made}", f"endpoint:{made}")

    def deleted(self, call: Call) -> None:
        """Looked at before moto deletes endpoints."""
        for name in call.params["VpcEndpointIds"]:
            endpoint = ec2_backends[ACCOUNT][call.region].vpc_end_points.get(name)
            if endpoint is None or "guardduty" not in endpoint.service_name or endpoint.state == "deleted":
                continue
            subnets = [i.subnet for i in self.fake.interfaces.all.values() if i.owner == f"endpoint:{name}"]
            self.fake.interfaces.release(f"endpoint:{name}", after=LINGERS)
            self.fake.clock.after(RETURNS, lambda vpc=endpoint.vpc_id, subnets=subnets: self._again(call, vpc, subnets))

    def _again(self, call: Call, vpc: str, subnets: list[str]) -> None:
        watched = self.fake.eks_in(call.region).clusters.values()
        if any(cluster.get("resourcesVpcConfig", {}).get("vpcId") == vpc for cluster in watched):
            self._put(call.region, vpc, subnets)
