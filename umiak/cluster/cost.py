"""What a cluster costs, line by line: planned from cluster.yaml, or as it stands with the age of each resource.

Lines by the hour and by the month add up; lines by use (data read, stored, sent) have only a price per unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal

from umiak.cluster import inventory, prices, stacks
from umiak.cluster.aws import Aws, AwsError, DeniedError
from umiak.cluster.prices import Price, PriceBook
from umiak.cluster.template import bastion
from umiak.cluster.things import Thing
from umiak.errors import InputError, RetryError
from umiak.spec.cluster import ClusterSpec

HOURS_PER_MONTH = Decimal(730)
Per = Literal["hour", "month", "use"]


@dataclass(frozen=True)
class Line:
    what: str
    quantity: Decimal
    unit: str
    per: Per
    price: Price | None
    since: datetime | None = None

    @property
    def hourly(self) -> Decimal | None:
        if self.price is None or self.per == "use":
            return None
        amount = self.price.amount * self.quantity
        return amount if self.per == "hour" else amount / HOURS_PER_MONTH

    @property
    def monthly(self) -> Decimal | None:
        return None if self.hourly is None else self.hourly * HOURS_PER_MONTH

    def so_far(self, now: datetime) -> Decimal | None:
        if self.hourly is None or self.since is None:
            return None
        return self.hourly * Decimal((now - self.since).total_seconds()) / 3600


def planned(spec: ClusterSpec, book: PriceBook) -> list[Line]:
    """What cluster.yaml would cost, before anything exists."""
    nodes = spec.nodes
    gateways = {"single": 1, "per-zone": len(spec.zones), "none": 0}[spec.network.nat]
    ways = int(spec.kubernetes.bastion)
    addresses = nodes.count + ways if spec.network.nat == "none" else gateways
    if nodes.spot:
        title = (
            f"nodes, spot, most expensive of {len(nodes.types)} types now"
            if len(nodes.types) > 1
            else f"nodes, {nodes.types[0]} spot"
        )
        price = book.spot(nodes.types, spec.zones[0])
    else:
        title, price = f"nodes, {nodes.types[0]} on-demand", book.price(prices.instance(nodes.types[0]))
    lines = [
        Line("EKS control plane", Decimal(1), "", "hour", book.price(prices.CONTROL_PLANE)),
        Line(title, Decimal(nodes.count), "", "hour", price),
        Line("node disks, gp3", Decimal(nodes.count * nodes.disk_gb), "GB", "month", book.price(prices.DISK_GB)),
        Line(f"bastion, {bastion.TYPE}", Decimal(ways), "", "hour", book.price(prices.instance(bastion.TYPE))),
        Line("bastion disk, gp3", Decimal(ways * bastion.DISK_GB), "GB", "month", book.price(prices.DISK_GB)),
        Line("NAT gateways", Decimal(gateways), "", "hour", book.price(prices.NAT_HOUR)),
        Line("public IPv4 addresses", Decimal(addresses), "", "hour", book.price(prices.ADDRESS_HOUR)),
        Line("KMS key", Decimal(0 if spec.kms_key_arn else 1), "", "month", book.price(prices.KEY_MONTH)),
    ]
    return [line for line in lines if line.quantity] + list(by_use(spec, book, stored=True))


def by_use(spec: ClusterSpec, book: PriceBook, stored: bool) -> Iterator[Line]:
    """What depends on how much is stored and moved. `stored`: the file system too, which a running cluster lists by its size."""
    units = [
        ("EFS read", "GB", prices.EFS_READ_GB),
        ("EFS written", "GB", prices.EFS_WRITE_GB),
        ("S3 stored", "GB-month", prices.BUCKET_GB),
        ("ECR stored", "GB-month", prices.IMAGES_GB),
        ("control plane logs", "GB", prices.LOGS_GB),
    ]
    if stored:
        units.insert(0, ("EFS stored", "GB-month", prices.EFS_GB))
    if spec.network.nat != "none":
        units.append(("NAT gateway traffic", "GB", prices.NAT_GB))
    for what, unit, query in units:
        yield Line(what, Decimal(1), unit, "use", book.price(query))


# By the kind in the inventory: what the line calls it, and its price.
_METERED: dict[str, tuple[str, Per, prices.Query]] = {
    "EKS cluster": ("EKS control plane", "hour", prices.CONTROL_PLANE),
    "disk": ("disk", "month", prices.DISK_GB),
    "NAT gateway": ("NAT gateway", "hour", prices.NAT_HOUR),
    "IP address": ("public IPv4 address", "hour", prices.ADDRESS_HOUR),
    "key": ("KMS key", "month", prices.KEY_MONTH),
    "file system": ("EFS stored", "month", prices.EFS_GB),
}


def actual(spec: ClusterSpec, book: PriceBook, things: list[Thing]) -> list[Line]:
    """What the cluster costs as it stands, a line for each thing that has a meter."""
    lines = []
    for thing in things:
        meter = thing.meter
        if meter is None:
            continue
        if thing.kind in ("node", "bastion"):
            what = f"{thing.kind} {thing.name}, {thing.detail}{' spot' if meter.spot else ''}"
            zone = meter.zone or spec.zones[0]
            price = book.spot([thing.detail], zone) if meter.spot else book.price(prices.instance(thing.detail))
            lines.append(Line(what, meter.quantity, "", "hour", price, meter.since))
        elif thing.kind in _METERED:
            title, per, query = _METERED[thing.kind]
            # A disk of another kind has another price, which is not asked for.
            price = book.price(query) if thing.kind != "disk" or meter.type == "gp3" else None
            lines.append(Line(f"{title} {thing.name}", meter.quantity, meter.unit, per, price, meter.since))
    return lines + list(by_use(spec, book, stored=False))


@dataclass(frozen=True)
class Report:
    # None when AWS could not be asked.
    created: bool | None
    lines: list[Line]
    # Why something is not known, when asking failed.
    trouble: Exception | None = None


def report(spec: ClusterSpec, aws: Aws, book: PriceBook) -> Report:
    """The bill of what exists, or of the plan when nothing does. Raises when what exists cannot be listed, and when not one
    price is known for another reason than permission."""
    created: bool | None = None
    trouble: Exception | None = None
    try:
        stack = stacks.find(aws, spec.name)
        created = stack is not None and stack.ours
    except (AwsError, InputError, RetryError) as error:
        trouble = error
    lines = actual(spec, book, inventory.metered(aws, spec)) if created else planned(spec, book)
    book.save()
    trouble = trouble or book.trouble
    if trouble and not isinstance(trouble, DeniedError) and not any(line.price for line in lines):
        raise trouble
    return Report(created, lines, trouble)
