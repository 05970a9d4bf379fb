"""Network interfaces, and what they keep alive: nothing they are in can be deleted while they are there.

Some linger: a node's, when its network plugin dies before it tidies up; a load balancer's, for a minute. moto's own
interfaces are not shown, because nothing in it keeps them consistent.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.fake_aws.calls import AwsFault, Call

if TYPE_CHECKING:
    from tests.fake_aws.server import FakeAws


@dataclass
class Interface:
    id: str
    region: str
    subnet: str
    vpc: str
    groups: tuple[str, ...]
    description: str
    # Who it belongs to: a cluster, an instance, a mount target, a load balancer.
    owner: str
    status: str = "in-use"
    tags: dict[str, str] = field(default_factory=dict)


class Interfaces:
    def __init__(self, fake: FakeAws) -> None:
        self.fake = fake
        self.all: dict[str, Interface] = {}
        # How many interfaces of ended nodes stay behind for ever.
        self.leaks = 1
        self._numbers = itertools.count(1)

    def handlers(self) -> dict[tuple[str, str], Callable[[Call], Any]]:
        return {
            ("ec2", "DescribeNetworkInterfaces"): self.describe,
            ("ec2", "DeleteNetworkInterface"): self.delete,
        }

    def add(self, region: str, subnet: str, groups: tuple[str, ...], description: str, owner: str) -> Interface:
        from moto.ec2.models import ec2_backends

        from tests.fake_aws.people import ACCOUNT

        vpc = ec2_backends[ACCOUNT][region].get_subnet(subnet).vpc_id
        made = Interface(f"eni-{next(self._numbers):017x}", region, subnet, vpc, groups, description, owner)
        self.all[made.id] = made
        return made

    def release(self, owner: str, after: float = 0.0) -> None:
        """What belonged to it goes away."""
        gone = [item.id for item in self.all.values() if item.owner == owner]

        def vanish() -> None:
            for name in gone:
                self.all.pop(name, None)

        if after:
            self.fake.clock.after(after, vanish)
        else:
            vanish()

    def strand(self, owner: str) -> None:
        """Its owner is gone, but as many as `leaks` stay behind, free."""
        for item in [item for item in self.all.values() if item.owner == owner]:
            if self.leaks > 0:
                self.leaks -= 1
                item.status, item.owner = "available", ""
            else:
                del self.all[item.id]

    def describe(self, call: Call) -> dict[str, Any]:
        unknown = set(call.params) - {"Filters", "NextToken", "MaxResults"}
        assert not unknown, f"{call}: parameters that are not modelled: {unknown}"
        found = [item for item in self.all.values() if item.region == call.region]
        for entry in call.params.get("Filters", []):
            assert entry["Name"] in _FILTERS, f"{call}: filters that are not modelled: {entry['Name']}"
            found = [item for item in found if set(_FILTERS[entry["Name"]](item)) & set(entry["Values"])]
        return {
            "NetworkInterfaces": [
                {
                    "NetworkInterfaceId": item.id,
                    "SubnetId": item.subnet,
                    "VpcId": item.vpc,
                    "Groups": [{"GroupId": group} for group in item.groups],
                    "Description": item.description,
                    "Status": item.status,
                    "TagSet": [{"Key": key, "Value": value} for key, value in item.tags.items()],
                }
                for item in found
            ]
        }

    def delete(self, call: Call) -> dict[str, Any]:
        name = call.params["NetworkInterfaceId"]
        if name not in self.all:
            raise AwsFault("InvalidNetworkInterfaceID.NotFound", f"The networkInterface ID '{name}' does not exist")
        if self.all[name].status == "in-use":
            raise AwsFault("InvalidParameterValue", f"Network interface '{name}' is currently in use.")
        del self.all[name]
        return {}

    def in_group(self, group: str) -> list[str]:
        return [item.id for item in self.all.values() if group in item.groups]

    def in_subnet(self, subnet: str) -> list[str]:
        return [item.id for item in self.all.values() if item.subnet == subnet]


_FILTERS: dict[str, Callable[[Interface], tuple[str, ...]]] = {
    "vpc-id": lambda item: (item.vpc,),
    "status": lambda item: (item.status,),
    "group-id": lambda item: item.groups,
}
