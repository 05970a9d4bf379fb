"""What `destroy` in cluster.yaml decides about: each kind of data, how it is found and removed, and what became of it all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from umiak.cluster import cleanup, inventory
from umiak.cluster.aws import Aws
from umiak.cluster.cleanup import Say
from umiak.cluster.ownership import Owner
from umiak.cluster.things import Thing
from umiak.spec.cluster import ClusterSpec


@dataclass(frozen=True)
class Data:
    # The field of `destroy` in cluster.yaml, the title in the template, and what it is called in the inventory.
    field: str
    title: str
    kind: str
    # What it is called where people read what becomes of it.
    words: str
    look: Callable[[Aws, ClusterSpec, Owner], Iterator[Thing]]
    remove: Callable[[Aws, Thing, Say], None]

    def is_kept(self, spec: ClusterSpec) -> bool:
        return self.fate(spec) == "keep"

    def fate(self, spec: ClusterSpec) -> str:
        """ "keep" or "delete", as cluster.yaml says."""
        return str(getattr(spec.destroy, self.field))

    def existing(self, spec: ClusterSpec) -> str | None:
        """What cluster.yaml names in the place of a new one: not the cluster's, so nothing becomes of it."""
        return spec.kms_key_arn if self.field == "key" else getattr(spec.existing, self.field)


# The key last: it opens the others.
DATA = (
    Data("volume", "Volume", "file system", "shared volume (EFS)", inventory.volumes, cleanup.volume),
    Data("bucket", "Bucket", "bucket", "bucket (S3)", inventory.buckets, cleanup.bucket),
    Data("images", "Images", "image repository", "images (ECR)", inventory.repositories, cleanup.repository),
    Data("key", "Key", "key", "key (KMS)", inventory.keys, cleanup.key),
)


def data(aws: Aws, spec: ClusterSpec, owner: Owner) -> list[Thing]:
    """What may have outlived a cluster of this name: the owner's own and what earlier ones kept."""
    return [thing for entry in DATA for thing in entry.look(aws, spec, owner)]


def remove(aws: Aws, spec: ClusterSpec, owner: Owner, entry: Data, say: Say) -> None:
    """The owner's own; what an earlier cluster kept is not its to remove."""

    def own() -> Iterator[Thing]:
        return (thing for thing in entry.look(aws, spec, owner) if not thing.earlier)

    cleanup.until_gone(own, lambda thing: entry.remove(aws, thing, say), say)


@dataclass(frozen=True)
class Remains:
    """What a look found. What is kept on purpose is billed too, but no failure."""

    kept: list[Thing]
    left: list[Thing]
    # Not of this cluster: kept by an earlier one with the same name.
    earlier: list[Thing] = field(default_factory=list)


def audit(aws: Aws, spec: ClusterSpec, owner: Owner) -> Remains:
    return sorted_out(inventory.everything(aws, spec, owner), spec)


def sorted_out(things: list[Thing], spec: ClusterSpec) -> Remains:
    kept = {entry.kind for entry in DATA if entry.is_kept(spec)}
    own = [thing for thing in things if not thing.earlier]
    return Remains(
        [thing for thing in own if thing.kind in kept],
        [thing for thing in own if thing.kind not in kept],
        [thing for thing in things if thing.earlier],
    )
