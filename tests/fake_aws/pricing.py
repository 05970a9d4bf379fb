"""The Price List API and spot prices. Products have the shape AWS documents; their prices are made up and easy to add."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tests.fake_aws.calls import Call


def product(
    service: str, usage: str, price: str, unit: str = "Hrs", currency: str = "USD", **attributes: str
) -> dict[str, Any]:
    """One entry of a PriceList, as GetProducts returns them (each a JSON text)."""
    sku = f"SKU{abs(hash((service, usage, price, tuple(sorted(attributes.items()))))) % 10**10}"
    family = attributes.pop("productFamily", None)
    body: dict[str, Any] = {
        "product": {
            "attributes": {"servicecode": service, "usagetype": usage, "regionCode": "us-west-2", **attributes},
            "sku": sku,
        },
        "serviceCode": service,
        "terms": {
            "OnDemand": {
                f"{sku}.JRTCKXETXF": {
                    "priceDimensions": {
                        f"{sku}.JRTCKXETXF.6YS6EN2CT7": {
                            "unit": unit,
                            "beginRange": "0",
                            "endRange": "Inf",
                            "pricePerUnit": {currency: price},
                        }
                    },
                    "sku": sku,
                    "effectiveDate": "2026-11-01T00:00:00Z",
                    "offerTermCode": "JRTCKXETXF",
                }
            }
        },
        "version": "20261101000000",
        "publicationDate": "2026-11-01T00:00:00Z",
    }
    if family:
        body["product"]["productFamily"] = family
    return body


def _instance(kind: str, price: str, **changed: str) -> dict[str, Any]:
    attributes = {
        "instanceType": kind,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "productFamily": "Compute Instance",
    } | changed
    return product("AmazonEC2", f"USW2-BoxUsage:{kind}", price, **attributes)


def _tiered(entry: dict[str, Any]) -> dict[str, Any]:
    """A second, cheaper tier beside the first, as S3 has."""
    (term,) = entry["terms"]["OnDemand"].values()
    ((code, first),) = term["priceDimensions"].items()
    first["endRange"] = "51200"
    term["priceDimensions"][code + "2"] = first | {
        "beginRange": "51200",
        "endRange": "Inf",
        "pricePerUnit": {"USD": "0.01"},
    }
    return entry


def catalogue() -> list[dict[str, Any]]:
    """What a us-west-2 list holds for a cluster, with neighbours that must not be taken for it."""
    return [
        product("AmazonEKS", "USW2-AmazonEKS-Hours:perCluster", "0.1000000000", operation="CreateOperation"),
        product("AmazonEKS", "USW2-AmazonEKS-Hours:extendedSupport", "0.5000000000", operation="ExtendedSupport"),
        _instance("m6i.large", "0.0960000000"),
        _instance("t4g.nano", "0.0042000000"),
        _instance("m6i.large", "0.1880000000", operatingSystem="Windows"),
        _instance("m6i.xlarge", "0.1920000000"),
        product(
            "AmazonEC2",
            "USW2-EBS:VolumeUsage.gp3",
            "0.0800000000",
            "GB-Mo",
            volumeApiName="gp3",
            productFamily="Storage",
        ),
        product("AmazonEC2", "USW2-NatGateway-Hours", "0.0450000000", productFamily="NAT Gateway"),
        product("AmazonEC2", "USW2-RegionalNatGateway-Hours", "0.0950000000", productFamily="NAT Gateway"),
        product("AmazonEC2", "USW2-NatGateway-Bytes", "0.0450000000", "GB", productFamily="NAT Gateway"),
        product("AmazonVPC", "USW2-PublicIPv4:InUseAddress", "0.0050000000"),
        product("AmazonVPC", "USW2-PublicIPv4:IdleAddress", "0.0070000000"),
        product("awskms", "us-west-2-KMS-Keys", "1.0000000000", "Keys"),
        product("AmazonEFS", "USW2-TimedStorage-ByteHrs", "0.3000000000", "GB-Mo", productFamily="Storage"),
        product("AmazonEFS", "USW2-IATimedStorage-ByteHrs", "0.0160000000", "GB-Mo", productFamily="Storage"),
        product("AmazonEFS", "USW2-ETDataAccess-Bytes", "0.0300000000", "GB", accessType="Read"),
        product("AmazonEFS", "USW2-ETDataAccess-Bytes", "0.0600000000", "GB", accessType="Write"),
        _tiered(product("AmazonS3", "USW2-TimedStorage-ByteHrs", "0.0230000000", "GB-Mo", volumeType="Standard")),
        product("AmazonECR", "USW2-TimedStorage-ByteHrs", "0.1000000000", "GB-Mo"),
        product("AmazonCloudWatch", "USW2-DataProcessing-Bytes", "0.5000000000", "GB", group="Ingested Logs"),
    ]


class Pricing:
    def __init__(self) -> None:
        self.products = catalogue()
        self.spot = {"m6i.large": "0.0370", "m5.large": "0.0410", "m6a.large": "0.0330", "m5a.large": "0.0350"}

    def handlers(self) -> dict[tuple[str, str], Callable[[Call], Any]]:
        return {("pricing", "GetProducts"): self.find, ("ec2", "DescribeSpotPriceHistory"): self.history}

    def find(self, call: Call) -> dict[str, Any]:
        assert call.region == "us-east-1", f"the Price List API does not answer in {call.region}"
        assert set(call.params) <= {"ServiceCode", "Filters", "NextToken"}, f"GetProducts: not modelled: {call.params}"
        found = [entry for entry in self.products if entry["serviceCode"] == call.params["ServiceCode"]]
        for wanted in call.params["Filters"]:
            assert wanted["Type"] == "TERM_MATCH", f"filter type {wanted['Type']} is not modelled"
            found = [entry for entry in found if _attribute(entry, wanted["Field"]) == wanted["Value"]]
        # One product a page: a caller that reads only the first page takes the wrong price.
        first = int(call.params.get("NextToken") or 0)
        answer: dict[str, Any] = {
            "FormatVersion": "aws_v1",
            "PriceList": [json.dumps(entry) for entry in found[first : first + 1]],
        }
        return answer | ({"NextToken": str(first + 1)} if first + 1 < len(found) else {})

    def history(self, call: Call) -> dict[str, Any]:
        known = {"InstanceTypes", "ProductDescriptions", "AvailabilityZone", "StartTime"}
        assert set(call.params) == known, f"DescribeSpotPriceHistory: not modelled: {set(call.params) ^ known}"
        zone = call.params["AvailabilityZone"]
        now = datetime.now(UTC).replace(tzinfo=None)
        return {
            "SpotPriceHistory": [
                {"AvailabilityZone": zone, "InstanceType": kind, "SpotPrice": self.spot[kind], "Timestamp": now}
                for kind in call.params["InstanceTypes"]
                if kind in self.spot
            ]
        }


def _attribute(entry: dict[str, Any], name: str) -> str | None:
    body = entry["product"]
    value: str | None = body.get(name) if name == "productFamily" else body["attributes"].get(name)
    return value
