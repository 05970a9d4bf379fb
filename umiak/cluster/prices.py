"""Prices as AWS publishes them, through the Price List API, with the date they were asked for. Never a guess: no price is None.

Spot prices change by the hour and are not in that list; they are asked of EC2 and never cached.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from umiak.cluster.aws import Aws, AwsError
from umiak.errors import InputError, RetryError
from umiak.files import temporary_name
from umiak.spec.cluster import partition

FRESH = timedelta(days=7)
# Which regions answer for a partition; the others have no public price list.
_ENDPOINTS = {"aws": "us-east-1", "aws-cn": "cn-northwest-1"}
# Before a usage type stands its region: USW2-, or us-west-2- in some lists, or nothing in the oldest region.
_PREFIX = r"([A-Z0-9]+-|[a-z]+(-[a-z]+)+-\d-)?"
_FAILURES = (AwsError, InputError, RetryError)


@dataclass(frozen=True)
class Query:
    """One product of the list: attributes AWS filters by, and how its usage type ends after the region's prefix."""

    service: str
    usage: str
    filters: tuple[tuple[str, str], ...] = ()

    def key(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True)
class Price:
    amount: Decimal
    currency: str
    asked: date


def instance(kind: str) -> Query:
    attributes = (
        ("instanceType", kind),
        ("operatingSystem", "Linux"),
        ("tenancy", "Shared"),
        ("preInstalledSw", "NA"),
        ("capacitystatus", "Used"),
    )
    return Query("AmazonEC2", f"BoxUsage:{kind}", attributes)


CONTROL_PLANE = Query("AmazonEKS", "AmazonEKS-Hours:perCluster")
DISK_GB = Query("AmazonEC2", "EBS:VolumeUsage.gp3", (("volumeApiName", "gp3"),))
NAT_HOUR = Query("AmazonEC2", "NatGateway-Hours", (("productFamily", "NAT Gateway"),))
NAT_GB = Query("AmazonEC2", "NatGateway-Bytes", (("productFamily", "NAT Gateway"),))
ADDRESS_HOUR = Query("AmazonVPC", "PublicIPv4:InUseAddress")
KEY_MONTH = Query("awskms", "KMS-Keys")
EFS_GB = Query("AmazonEFS", "TimedStorage-ByteHrs", (("productFamily", "Storage"),))
EFS_READ_GB = Query("AmazonEFS", "ETDataAccess-Bytes", (("accessType", "Read"),))
EFS_WRITE_GB = Query("AmazonEFS", "ETDataAccess-Bytes", (("accessType", "Write"),))
BUCKET_GB = Query("AmazonS3", "TimedStorage-ByteHrs", (("volumeType", "Standard"),))
IMAGES_GB = Query("AmazonECR", "TimedStorage-ByteHrs")
LOGS_GB = Query("AmazonCloudWatch", "DataProcessing-Bytes", (("group", "Ingested Logs"),))


def parse(query: Query, products: Iterable[str], asked: date) -> Price | None:
    """The one on-demand price of the products that match; the first tier's, where there are tiers. Two prices are none."""
    found = set()
    for text in products:
        product = json.loads(text)
        if not re.fullmatch(_PREFIX + re.escape(query.usage), product["product"]["attributes"]["usagetype"]):
            continue
        for term in product["terms"].get("OnDemand", {}).values():
            for dimension in term["priceDimensions"].values():
                if dimension.get("beginRange", "0") == "0":
                    found |= {(currency, Decimal(amount)) for currency, amount in dimension["pricePerUnit"].items()}
    if len(found) != 1:
        return None
    currency, amount = found.pop()
    return Price(amount, currency, asked)


class PriceBook:
    """Prices of one region, from the cache while they are fresh. `trouble` says why an answer is missing, if something failed."""

    def __init__(self, aws: Aws, refresh: bool = False, now: datetime | None = None) -> None:
        self.aws = aws
        self.refresh = refresh
        self.now = now or datetime.now(UTC)
        self.trouble: Exception | None = None
        self._path = cache_directory() / f"prices-{aws.region}.json"
        self._cached = _read(self._path)

    def price(self, query: Query) -> Price | None:
        cached = self._cached.get(query.key())
        today = self.now.date()
        # What failed once fails for every product alike: credentials, permission, network.
        if self.trouble or (cached and not self.refresh and today - cached.asked < FRESH):
            return cached
        try:
            price = self._ask(query, today)
        except _FAILURES as error:
            self.trouble = error
            return cached
        if price:
            self._cached[query.key()] = price
        return price

    def spot(self, types: Iterable[str], zone: str) -> Price | None:
        """The dearest of these types now: what a node costs at most. Unknown if one of them is."""
        wanted = set(types)
        try:
            history = self.aws.pages(
                "ec2",
                "DescribeSpotPriceHistory",
                "SpotPriceHistory",
                InstanceTypes=sorted(wanted),
                ProductDescriptions=["Linux/UNIX"],
                AvailabilityZone=zone,
                StartTime=self.now,
            )
        except _FAILURES as error:
            self.trouble = error
            return None
        latest: dict[str, tuple[datetime, Decimal]] = {}
        for entry in history:
            point = (entry["Timestamp"], Decimal(entry["SpotPrice"]))
            latest[entry["InstanceType"]] = max(point, latest.get(entry["InstanceType"], point))
        if set(latest) != wanted:
            return None
        return Price(max(amount for _, amount in latest.values()), "USD", self.now.date())

    def save(self) -> None:
        """Keep what was learned. A cache that cannot be written costs only time."""
        entries = {
            key: {"amount": str(price.amount), "currency": price.currency, "asked": price.asked.isoformat()}
            for key, price in self._cached.items()
        }
        temporary = temporary_name(self._path)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(entries, indent=1, sort_keys=True))
            temporary.replace(self._path)
        except OSError:
            temporary.unlink(missing_ok=True)

    def _ask(self, query: Query, today: date) -> Price | None:
        endpoint = _ENDPOINTS.get(partition(self.aws.region))
        if endpoint is None:
            return None
        filters = (("regionCode", self.aws.region), *query.filters)
        products: list[Any] = self.aws.pages(
            "pricing",
            "GetProducts",
            "PriceList",
            region=endpoint,
            ServiceCode=query.service,
            Filters=[{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in filters],
        )
        return parse(query, products, today)


def cache_directory() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "umiak"


def _read(path: Path) -> dict[str, Price]:
    """A cache that is missing or damaged is an empty one."""
    try:
        entries = json.loads(path.read_text())
        return {
            key: Price(Decimal(entry["amount"]), entry["currency"], date.fromisoformat(entry["asked"]))
            for key, entry in entries.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError):
        return {}
