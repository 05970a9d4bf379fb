"""The tagging API: resources by tag, as they were a minute ago. It still shows what is gone, and not yet what is new; and, as
on AWS, no IAM roles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from moto.ec2.models import ec2_backends
from moto.ecr.models import ecr_backends
from moto.efs.models import efs_backends
from moto.kms.models import kms_backends
from moto.logs.models import logs_backends
from moto.s3.models import s3_backends

from tests.fake_aws.calls import Call
from tests.fake_aws.people import ACCOUNT

if TYPE_CHECKING:
    from tests.fake_aws.server import FakeAws

LAG, EVERY = 60.0, 20.0
KEY_SECONDS = 300.0
Tagged = dict[str, dict[str, str]]


class Tagging:
    def __init__(self, fake: FakeAws) -> None:
        self.fake = fake
        self._snapshots: dict[str, list[tuple[float, Tagged]]] = {}
        # When a key was first asked about.
        self._keys: dict[str, float] = {}

    def handlers(self) -> dict[tuple[str, str], Callable[[Call], Any]]:
        return {("resourcegroupstaggingapi", "GetResources"): self.get}

    def look(self, region: str) -> None:
        """Remember how things are now; called as time goes by."""
        now = self.fake.clock.seconds
        seen = self._snapshots.setdefault(region, [])
        if not seen or now >= seen[-1][0] + EVERY:
            seen.append((now, dict(self._live(region))))

    def get(self, call: Call) -> dict[str, Any]:
        unknown = set(call.params) - {"TagFilters", "PaginationToken", "ResourcesPerPage"}
        assert not unknown, f"{call}: parameters that are not modelled: {unknown}"
        then = self.fake.clock.seconds - LAG
        shown: Tagged = next((seen for at, seen in reversed(self._snapshots[call.region]) if at <= then), {})
        for entry in call.params.get("TagFilters", []):
            shown = {arn: tags for arn, tags in shown.items() if tags.get(entry["Key"]) in entry["Values"]}
        return {
            "PaginationToken": "",
            "ResourceTagMappingList": [
                {"ResourceARN": arn, "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}
                for arn, tags in shown.items()
            ],
        }

    def is_new(self, key: str) -> bool:
        """Whether its tags do not count yet: KMS developer guide, "ABAC for AWS KMS": up to five minutes."""
        first = self._keys.setdefault(key, self.fake.clock.seconds)
        return self.fake.clock.seconds - first < KEY_SECONDS

    def of(self, arn: str, region: str) -> dict[str, str]:
        """The tags of one thing, as they are now."""
        prefix, _, name = arn.rpartition("/")
        if name in self.fake.interfaces.all:
            return self.fake.interfaces.all[name].tags
        if ":ec2:" in arn:
            return dict(ec2_backends[ACCOUNT][region].tags.get(name, {}))
        if ":elasticfilesystem:" in arn:
            efs = efs_backends[ACCOUNT][region]
            there = efs.access_points if prefix.endswith("access-point") else efs.file_systems_by_id
            return {tag["Key"]: tag["Value"] for tag in efs.list_tags_for_resource(name)} if name in there else {}
        if ":kms:" in arn:
            return dict(kms_backends[ACCOUNT][region].tagger.get_tag_dict_for_resource(name))
        if ":elasticloadbalancing:" in arn:
            return next((item.tags for item in self.fake.balancers.all.values() if item.arn == arn), {})
        return {}

    def _live(self, region: str) -> Iterator[tuple[str, dict[str, str]]]:
        ec2 = ec2_backends[ACCOUNT][region]
        root = f"arn:aws:ec2:{region}:{ACCOUNT}"
        tables: dict[str, tuple[str, Any]] = {
            "igw": ("internet-gateway", ec2.internet_gateways),
            "lt": ("launch-template", ec2.launch_templates),
            "rtb": ("route-table", ec2.route_tables),
            "vol": ("volume", ec2.volumes),
            "vpc": ("vpc", ec2.vpcs),
        }
        others = {
            "eipalloc": ("elastic-ip", {address.allocation_id for address in ec2.addresses}),
            "i": ("instance", {i.id for i in ec2.all_instances() if i.state != "terminated"}),
            "nat": ("natgateway", {g.id for g in ec2.nat_gateways.values() if g.state != "deleted"}),
            "sg": ("security-group", {name for groups in ec2.groups.values() for name in groups}),
            "subnet": ("subnet", {name for zone in ec2.subnets.values() for name in zone}),
            "vpce": ("vpc-endpoint", {e.id for e in ec2.vpc_end_points.values() if e.state != "deleted"}),
        }
        for name, tags in ec2.tags.items():
            prefix = name.partition("-")[0]
            kind, there = tables.get(prefix) or others.get(prefix) or ("", ())
            if kind and name in there:
                yield f"{root}:{kind}/{name}", dict(tags)
        efs = efs_backends[ACCOUNT][region]
        for name, volume in efs.file_systems_by_id.items():
            yield volume.file_system_arn, {tag["Key"]: tag["Value"] for tag in efs.list_tags_for_resource(name)}
        for bucket in s3_backends[ACCOUNT]["aws"].buckets.values():
            yield bucket.arn, s3_backends[ACCOUNT]["aws"].tagger.get_tag_dict_for_resource(bucket.arn)
        keys = kms_backends[ACCOUNT][region]
        for key in keys.keys.values():
            yield key.arn, keys.tagger.get_tag_dict_for_resource(key.id)
        images = ecr_backends[ACCOUNT][region]
        for repository in images.repositories.values():
            yield repository.arn, images.tagger.get_tag_dict_for_resource(repository.arn)
        logs = logs_backends[ACCOUNT][region]
        for group in logs.groups.values():
            yield group.arn, logs.tagger.get_tag_dict_for_resource(group.arn)
        for cluster in self.fake.eks_in(region).clusters.values():
            if cluster.get("region") == region:
                yield cluster.get("arn", ""), cluster.get("tags", {})
