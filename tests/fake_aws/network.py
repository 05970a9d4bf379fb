"""What EC2 and EFS refuse to delete, where moto would let it go, and interfaces that come and go with what needs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moto.ec2.models import ec2_backends
from moto.efs.models import efs_backends

from tests.fake_aws.calls import AwsFault, Call
from tests.fake_aws.people import ACCOUNT

if TYPE_CHECKING:
    from tests.fake_aws.server import FakeAws

Guard = Callable[[Call], None]


class Network:
    def __init__(self, fake: FakeAws) -> None:
        self.fake = fake

    def guards(self) -> dict[tuple[str, str], Guard]:
        """Looked at before moto answers."""
        return {
            ("ec2", "CreateVpc"): self.create_vpc,
            ("ec2", "DeleteSecurityGroup"): self.delete_group,
            ("ec2", "DeleteSubnet"): self.delete_subnet,
            ("ec2", "DeleteVolume"): self.delete_volume,
            ("ec2", "DeleteVpc"): self.delete_vpc,
            ("ec2", "DetachInternetGateway"): self.detach,
            ("efs", "CreateMountTarget"): self.mount,
            ("efs", "DeleteMountTarget"): self.unmount,
        }

    def create_vpc(self, call: Call) -> None:
        limit = self.fake.quotas.applied.get(("vpc", "L-F678F1CE"), 5)
        if call.via and len(self._ec2(call).vpcs) >= limit:
            raise AwsFault("VpcLimitExceeded", "The maximum number of VPCs has been reached.")

    def delete_group(self, call: Call) -> None:
        group = call.params["GroupId"]
        if self.fake.interfaces.in_group(group):
            raise AwsFault("DependencyViolation", f"resource {group} has a dependent object")
        for other in self._groups(call):
            rules = [*other.ingress_rules, *other.egress_rules]
            sources = {rule.source_group.get("GroupId") for rule in rules}
            if other.id != group and group in sources:
                raise AwsFault("DependencyViolation", f"resource {group} has a dependent object: {other.id}")

    def delete_subnet(self, call: Call) -> None:
        subnet = call.params["SubnetId"]
        gateways = [g for g in self._ec2(call).nat_gateways.values() if g.subnet_id == subnet and g.state != "deleted"]
        if self.fake.interfaces.in_subnet(subnet) or gateways:
            raise AwsFault("DependencyViolation", f"The subnet '{subnet}' has dependencies and cannot be deleted.")

    def delete_vpc(self, call: Call) -> None:
        vpc, ec2 = call.params["VpcId"], self._ec2(call)
        left = [group.id for group in self._groups(call) if group.vpc_id == vpc and group.name != "default"]
        left += [subnet.id for zone in ec2.subnets.values() for subnet in zone.values() if subnet.vpc_id == vpc]
        left += [gateway.id for gateway in ec2.internet_gateways.values() if gateway.vpc and gateway.vpc.id == vpc]
        if left:
            raise AwsFault("DependencyViolation", f"The vpc '{vpc}' has dependencies and cannot be deleted.")

    def delete_volume(self, call: Call) -> None:
        """A disk that Kubernetes made is attached as long as there are nodes."""
        tags = self._ec2(call).tags.get(call.params["VolumeId"], {})
        for key in tags:
            owner = key.removeprefix("kubernetes.io/cluster/")
            if owner != key and any(cluster == owner for cluster, _ in self.fake.eks_in(call.region).node_groups):
                raise AwsFault("VolumeInUse", f"Volume {call.params['VolumeId']} is currently attached")

    def detach(self, call: Call) -> None:
        vpc = call.params["VpcId"]
        if any(i.vpc == vpc and i.description.startswith("ELB ") for i in self.fake.interfaces.all.values()):
            raise AwsFault("DependencyViolation", f"Network {vpc} has some mapped public address(es).")

    def mount(self, call: Call) -> None:
        volume, subnet = call.params["FileSystemId"], call.params["SubnetId"]
        vpc = self._ec2(call).get_subnet(subnet).vpc_id
        others = {i.vpc for i in self.fake.interfaces.all.values() if i.owner.startswith(f"mount:{volume}:")} - {vpc}
        if others:
            # API reference of CreateMountTarget: all mount targets of a file system are in one VPC.
            raise AwsFault("MountTargetConflict", "requested subnet for new mount target is not in the same VPC")
        groups = tuple(call.params["SecurityGroups"])
        about = f"EFS mount target for {volume}"
        self.fake.interfaces.add(call.region, subnet, groups, about, f"mount:{volume}:{subnet}")

    def unmount(self, call: Call) -> None:
        target: Any = efs_backends[ACCOUNT][call.region].mount_targets_by_id.get(call.params["MountTargetId"])
        if target is not None:
            self.fake.interfaces.release(f"mount:{target.file_system_id}:{target.subnet_id}")

    def _ec2(self, call: Call) -> Any:
        return ec2_backends[ACCOUNT][call.region]

    def _groups(self, call: Call) -> list[Any]:
        return [group for groups in self._ec2(call).groups.values() for group in groups.values()]
