"""Load balancers, classic and new, as controllers inside Kubernetes make them; tests inject them, nothing here makes one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.fake_aws.calls import AwsFault, Call
from tests.fake_aws.people import ACCOUNT

if TYPE_CHECKING:
    from tests.fake_aws.server import FakeAws

# An interface of a deleted balancer stays so long.
LINGERS = 60.0


@dataclass
class Balancer:
    name: str
    classic: bool
    region: str
    vpc: str
    group: str
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def arn(self) -> str:
        kind = "" if self.classic else "net/"
        return f"arn:aws:elasticloadbalancing:{self.region}:{ACCOUNT}:loadbalancer/{kind}{self.name}"


class Balancers:
    def __init__(self, fake: FakeAws) -> None:
        self.fake = fake
        self.all: dict[str, Balancer] = {}
        self._numbers = itertools.count(1)

    def handlers(self) -> dict[tuple[str, str], Callable[[Call], Any]]:
        return {
            ("elb", "DescribeLoadBalancers"): self.describe_classic,
            ("elb", "DescribeTags"): self.tags_classic,
            ("elb", "DeleteLoadBalancer"): self.delete_classic,
            ("elbv2", "DescribeLoadBalancers"): self.describe,
            ("elbv2", "DescribeTags"): self.tags,
            ("elbv2", "DeleteLoadBalancer"): self.delete,
        }

    def inject(self, cluster: str, *, classic: bool, region: str = "us-west-2") -> Balancer:
        """One of a Service in that cluster, with its security group and an interface in a public subnet."""
        ec2 = self.fake.client("ec2", region=region, via="eks")
        made = self.fake.eks_in(region).clusters[cluster]["resourcesVpcConfig"]
        name = f"a{next(self._numbers):031x}"
        owned = {f"kubernetes.io/cluster/{cluster}": "owned"} if classic else {"elbv2.k8s.aws/cluster": cluster}
        group = ec2.create_security_group(
            GroupName=f"k8s-elb-{name}",
            Description="Security group for Kubernetes ELB",
            VpcId=made["vpcId"],
            TagSpecifications=[
                {"ResourceType": "security-group", "Tags": [{"Key": k, "Value": v} for k, v in owned.items()]}
            ],
        )["GroupId"]
        balancer = self.all[name] = Balancer(name, classic, region, made["vpcId"], group, owned)
        self.fake.interfaces.add(region, made["subnetIds"][0], (group,), f"ELB {name}", f"elb:{name}")
        return balancer

    def _here(self, call: Call, classic: bool) -> list[Balancer]:
        return [item for item in self.all.values() if item.region == call.region and item.classic == classic]

    def _delete(self, name: str) -> None:
        if name in self.all:
            del self.all[name]
            self.fake.interfaces.release(f"elb:{name}", after=LINGERS)

    def describe_classic(self, call: Call) -> dict[str, Any]:
        return {
            "LoadBalancerDescriptions": [
                {"LoadBalancerName": item.name, "VPCId": item.vpc} for item in self._here(call, classic=True)
            ]
        }

    def tags_classic(self, call: Call) -> dict[str, Any]:
        names = call.params["LoadBalancerNames"]
        if missing := set(names) - set(self.all):
            raise AwsFault("LoadBalancerNotFound", f"There is no ACTIVE Load Balancer named '{missing.pop()}'")
        return {"TagDescriptions": [{"LoadBalancerName": name, "Tags": _tags(self.all[name].tags)} for name in names]}

    def delete_classic(self, call: Call) -> dict[str, Any]:
        self._delete(call.params["LoadBalancerName"])
        return {}

    def describe(self, call: Call) -> dict[str, Any]:
        return {
            "LoadBalancers": [
                {"LoadBalancerArn": item.arn, "LoadBalancerName": item.name, "VpcId": item.vpc}
                for item in self._here(call, classic=False)
            ]
        }

    def tags(self, call: Call) -> dict[str, Any]:
        arns = {item.arn: item for item in self.all.values()}
        if missing := set(call.params["ResourceArns"]) - set(arns):
            raise AwsFault("LoadBalancerNotFound", f"Load balancer '{missing.pop()}' not found")
        return {
            "TagDescriptions": [
                {"ResourceArn": arn, "Tags": _tags(arns[arn].tags)} for arn in call.params["ResourceArns"]
            ]
        }

    def delete(self, call: Call) -> dict[str, Any]:
        self._delete(call.params["LoadBalancerArn"].rpartition("/")[2])
        return {}


def _tags(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
