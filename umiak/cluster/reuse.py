"""What an earlier cluster of the same name kept, offered to the next one: it is paid for, and may hold what one wants."""

from __future__ import annotations

from dataclasses import dataclass, replace

from umiak.cluster import fates, ownership, stacks
from umiak.cluster.aws import Aws
from umiak.cluster.checks.account import caller
from umiak.cluster.things import Thing
from umiak.spec.cluster import USER_TAG, ClusterSpec, Existing, partition


@dataclass(frozen=True)
class Kept:
    """`things`: all that is there. The fields: what of it the next cluster can use, at most one of each."""

    things: tuple[Thing, ...]
    volume: str | None = None
    bucket: str | None = None
    images: str | None = None
    key: str | None = None

    @property
    def usable(self) -> bool:
        return any((self.volume, self.bucket, self.images, self.key))


def look(aws: Aws, spec: ClusterSpec) -> Kept | None:
    """None when there is nothing to offer: a cluster exists, cluster.yaml names what to use, or nothing was kept."""
    if spec.existing != Existing() or stacks.find(aws, spec.name):
        return None
    things = fates.data(aws, spec, ownership.find(aws, spec))
    return choose(things) if things else None


def choose(things: list[Thing]) -> Kept:
    """Of each kind what the last cluster kept; what older ones did only if it is the only one."""

    def one(kind: str) -> str | None:
        all_of_it = [thing for thing in things if thing.kind == kind]
        last = [thing for thing in all_of_it if not thing.earlier] or all_of_it
        return last[0].name if len(last) == 1 else None

    return Kept(tuple(things), **{entry.field: one(entry.kind) for entry in fates.DATA})


def adopted(spec: ClusterSpec, kept: Kept, account: str, as_root: bool = False) -> ClusterSpec:
    """The same cluster, with what was kept in the place of new ones."""
    root = f"arn:{partition(spec.region)}:kms:{spec.region}:{account}"
    key = f"{root}:key/{kept.key}" if kept.key else None
    existing = Existing(volume=kept.volume, bucket=kept.bucket, images=kept.images, written_as_root=as_root)
    return replace(spec, existing=existing, kms_key_arn=spec.kms_key_arn or key)


def adopt(aws: Aws, spec: ClusterSpec, kept: Kept) -> ClusterSpec:
    as_root = False
    if kept.volume:
        volume = aws.call("efs", "DescribeFileSystems", FileSystemId=kept.volume)["FileSystems"][0]
        as_root = not any(tag["Key"] == USER_TAG for tag in volume.get("Tags", []))
    return adopted(spec, kept, caller(aws).account, as_root)
