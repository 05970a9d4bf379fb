"""cluster.yaml: what an AWS cluster should be. Typed and checked here, once; what AWS thinks of it is `umiak.cluster`'s work."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from umiak.spec.yamlfile import Check, about

OLDEST_KUBERNETES = (1, 35)
MOST_ZONES = 3
MOST_INSTANCE_TYPES = 20
TAG = "umiak:cluster"
# On what holds data: the id of the stack that made it. A name is used again, an id never.
STACK_TAG = "umiak:stack"
# On a volume: the user that all pods are on it. One without was written as root, by umiak 0.1.0.
USER_TAG = "umiak:user"

Fate = Literal["keep", "delete"]
Nat = Literal["single", "per-zone", "none"]

# Regions whose first two zones are not called a and b; which names an account really has, `validate` finds out.
_FIRST_ZONES = {"ap-northeast-1": "ac"}


def _matching(pattern: str, advice: str) -> Check:
    compiled = re.compile(pattern)
    return lambda value: None if compiled.fullmatch(value) else f"{advice}, not {value!r}"


def _kubernetes_version(value: str) -> str | None:
    if not re.fullmatch(r"\d+\.\d+", value):
        return f'must look like "1.37", not {value!r}'
    oldest = ".".join(map(str, OLDEST_KUBERNETES))
    if tuple(map(int, value.split("."))) < OLDEST_KUBERNETES:
        return f'must be "{oldest}" or newer, not {value!r}'
    return None


def _cidr(value: str) -> str | None:
    try:
        ipaddress.IPv4Network(value)
    except ValueError as error:
        return f"must be an IPv4 range like 10.20.0.0/16 ({error})"
    return None


def _cidrs(values: tuple[str, ...]) -> str | None:
    return next((complaint for value in values if (complaint := _cidr(value))), None)


def _vpc_cidr(value: str) -> str | None:
    if complaint := _cidr(value):
        return complaint
    network = ipaddress.IPv4Network(value)
    if not 16 <= network.prefixlen <= 22:
        return f"must be between /16 and /22, to hold the subnets and their pods, not /{network.prefixlen}"
    private = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
    if not any(network.subnet_of(ipaddress.IPv4Network(block)) for block in private):
        return f"must be a private range, inside one of {', '.join(private)}"
    return None


def _zones(values: tuple[str, ...]) -> str | None:
    if not 2 <= len(values) <= MOST_ZONES:
        return f"must name 2 or {MOST_ZONES} zones (EKS requires two; nodes run in the first), not {len(values)}"
    if len(set(values)) < len(values):
        return "must name different zones"
    return None


def _instance_types(values: tuple[str, ...]) -> str | None:
    if not 1 <= len(values) <= MOST_INSTANCE_TYPES:
        return f"must name 1 to {MOST_INSTANCE_TYPES} instance types, not {len(values)}"
    for value in values:
        if not re.fullmatch(r"[a-z][a-z0-9-]*\d[a-z0-9-]*\.[a-z0-9-]+", value):
            return f"must be instance types like m6i.large, not {value!r}"
    if len(set(values)) < len(values):
        return "must name different instance types"
    if len({is_arm(value) for value in values}) > 1:
        return f"must be all arm64 or all x86_64: {', '.join(f'{v} ({architecture(v)})' for v in values)}"
    return None


def _count(value: int) -> str | None:
    # 450 is what EKS allows in one managed node group.
    return None if 0 <= value <= 450 else f"must be 0 to 450 (one managed node group), not {value}"


def _disk(value: int) -> str | None:
    return None if 20 <= value <= 16384 else f"must be 20 to 16384 (GiB), not {value}"


def is_arm(instance_type: str) -> bool:
    """Whether the family's name says Graviton: a1, or a g after the generation (m7g, c6gn, im4gn), unlike g5."""
    family = instance_type.partition(".")[0]
    return family == "a1" or bool(re.match(r"[a-z]+-?\d+[a-z-]*g", family))


def architecture(instance_type: str) -> str:
    return "arm64" if is_arm(instance_type) else "x86_64"


def default_zones(region: str, zone: str | None = None) -> tuple[str, ...]:
    """The zone the nodes run in, and a second one: `zone` and the first other, or the region's first two."""
    first, second = (region + letter for letter in _FIRST_ZONES.get(region, "ab"))
    if zone is None or zone == first:
        return first, second
    return zone, first


def partition(region: str) -> str:
    """The ARN partition: the names of a region say it."""
    for start, name in (("cn-", "aws-cn"), ("us-gov-", "aws-us-gov"), ("eusc-", "aws-eusc")):
        if region.startswith(start):
            return name
    return "aws"


def suffix(region: str) -> str:
    """The domain of AWS's services there, as `AWS::URLSuffix` gives it."""
    return {"aws-cn": "amazonaws.com.cn", "aws-eusc": "amazonaws.eu"}.get(partition(region), "amazonaws.com")


def ec2_service(region: str) -> str:
    """What EC2 is called in a role's trust: in China it has a name of its own, which EKS and Pod Identity have not."""
    return "ec2.amazonaws.com.cn" if partition(region) == "aws-cn" else "ec2.amazonaws.com"


@dataclass(frozen=True)
class Kubernetes:
    version: str = field(
        default="1.37", metadata=about('EKS version, in quotes; "1.35" is the oldest.', _kubernetes_version)
    )
    api_cidrs: tuple[str, ...] = field(
        default=(),
        metadata=about(
            "Addresses that may reach the API server from outside, like [203.0.113.7/32]. Empty: only from inside the VPC.",
            _cidrs,
        ),
    )
    bastion: bool = field(
        default=False,
        metadata=about(
            "With api_cidrs empty: a small instance in the VPC, without SSH key or open port, through which `umiak cluster "
            "connect` reaches the API server (AWS Systems Manager)."
        ),
    )
    admin_arn: str | None = field(
        default=None,
        metadata=about(
            "IAM role or user that administers the cluster. null: whoever creates it (the stack's parameter AdminArn).",
            _matching(
                r"arn:aws[a-z-]*:iam::\d{12}:(role|user)/[\w+=,.@/-]+",
                "must be the ARN of an IAM role or user, like arn:aws:iam::123456789012:role/Admin (of an assumed role: "
                "the role's own ARN)",
            ),
        ),
    )


@dataclass(frozen=True)
class Nodes:
    count: int = field(default=3, metadata=about("How many. 0 is for a pause, after the cluster was made.", _count))
    types: tuple[str, ...] = field(
        default=("m6i.large",),
        metadata=about("Instance types, the preferred first. Spot needs several of one size.", _instance_types),
    )
    spot: bool = field(
        default=False,
        metadata=about("Spare capacity at a lower price; AWS may take a node back with two minutes' notice."),
    )
    disk_gb: int = field(default=100, metadata=about("Size of each node's encrypted disk, in GiB.", _disk))
    key_name: str | None = field(
        default=None,
        metadata=about(
            "EC2 key pair for SSH from inside the VPC. null: no SSH at all.",
            _matching(r"[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?", "must be the name of an EC2 key pair"),
        ),
    )


@dataclass(frozen=True)
class ClusterNetwork:
    cidr: str = field(default="10.20.0.0/16", metadata=about("The VPC's addresses, /16 to /22.", _vpc_cidr))
    nat: Nat = field(
        default="single",
        metadata=about(
            "How nodes reach the internet: single (one NAT gateway), per-zone (one each), or none (cheapest: nodes get "
            "public addresses, with nothing let in)."
        ),
    )


@dataclass(frozen=True)
class Destroy:
    volume: Fate = field(default="keep", metadata=about("The shared file system (EFS)."))
    bucket: Fate = field(default="keep", metadata=about("The S3 bucket and every version in it."))
    images: Fate = field(default="delete", metadata=about("The image repository (ECR)."))
    key: Fate = field(default="keep", metadata=about("The KMS key; what it encrypted is lost without it."))


@dataclass(frozen=True)
class Existing:
    volume: str | None = field(
        default=None,
        metadata=about(
            "File system (EFS), like fs-0123456789abcdef0. Files in it are not touched by creating or destroying a cluster.",
            _matching(r"fs-[0-9a-f]{8,40}", "must be the id of a file system, like fs-0123456789abcdef0"),
        ),
    )
    bucket: str | None = field(
        default=None,
        metadata=about(
            "Bucket (S3), by its name.",
            _matching(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", "must be the name of a bucket, without s3://"),
        ),
    )
    written_as_root: bool = field(
        default=False,
        metadata=about("The volume was written by umiak 0.1.0, whose pods wrote as root: they continue to."),
    )
    images: str | None = field(
        default=None,
        metadata=about(
            "Image repository (ECR), by its name.",
            _matching(r"[a-z0-9]+([._/-][a-z0-9]+)*", "must be the name of a repository, without the registry"),
        ),
    )


@dataclass(frozen=True)
class ClusterSpec:
    name: str = field(
        metadata=about(
            "Name of the cluster, its stack and its tags.",
            _matching(
                r"[a-z][-a-z0-9]{0,39}",
                "must be 1 to 40 of a-z, 0-9 and -, beginning with a letter (CloudFormation and EKS refuse others)",
            ),
        )
    )
    region: str = field(
        metadata=about("AWS region.", _matching(r"[a-z]{2,4}(-[a-z]+)+-\d{1,2}", "must be a region like us-west-2"))
    )
    zones: tuple[str, ...] = field(
        metadata=about(
            "Availability zones. All nodes run in the first; the others are there because EKS requires at least two.",
            _zones,
        )
    )
    account: str | None = field(
        default=None,
        metadata=about(
            "AWS account this may be created in. null: the one of the credentials.",
            _matching(r"\d{12}", "must be 12 digits"),
        ),
    )
    kubernetes: Kubernetes = field(default_factory=Kubernetes, metadata=about("The control plane."))
    nodes: Nodes = field(default_factory=Nodes, metadata=about("The machines that train."))
    network: ClusterNetwork = field(default_factory=ClusterNetwork, metadata=about("The VPC."))
    kms_key_arn: str | None = field(
        default=None,
        metadata=about(
            "KMS key for Kubernetes secrets, EFS, S3 and logs. null: a key is made.",
            _matching(
                r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/(mrk-[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})",
                "must be the ARN of a key, like arn:aws:kms:us-west-2:123456789012:key/… (of an alias: its key's ARN)",
            ),
        ),
    )
    existing: Existing = field(
        default_factory=Existing,
        metadata=about(
            "Existing resources to use instead of new ones; `up` offers what an earlier cluster kept. Their "
            "key goes into kms_key_arn. `destroy` never deletes them."
        ),
    )
    destroy: Destroy = field(
        default_factory=Destroy,
        metadata=about("What `umiak cluster destroy` does with what holds data: keep or delete."),
    )

    def conflicts(self) -> Iterator[tuple[str, str]]:
        for zone in self.zones:
            if not re.fullmatch(re.escape(self.region) + "[a-z]", zone):
                yield (
                    "zones",
                    f"{zone!r} is not a zone of {self.region}; write zones like {self.region}a (no local zones)",
                )
        if self.kms_key_arn and self.kms_key_arn.split(":")[3] != self.region:
            yield "kms_key_arn", f"the key is in {self.kms_key_arn.split(':')[3]}; it must be in {self.region}"
        for path, arn in (("kms_key_arn", self.kms_key_arn), ("kubernetes.admin_arn", self.kubernetes.admin_arn)):
            if arn and self.account and arn.split(":")[4] != self.account:
                yield path, f"belongs to account {arn.split(':')[4]}, but account says {self.account}"
        if self.kubernetes.bastion and self.kubernetes.api_cidrs:
            yield "kubernetes.bastion", "must be false while api_cidrs names addresses: they need no way in"
        kept = [name for name in ("volume", "bucket") if getattr(self.destroy, name) == "keep"]
        if self.kms_key_arn is None and self.destroy.key == "delete" and kept:
            yield (
                "destroy.key",
                f"must be keep while destroy.{kept[0]} is keep: without the key the data cannot be read",
            )
