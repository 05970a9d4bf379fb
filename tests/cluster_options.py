"""Every option of cluster.yaml that changes a template, and the specs with one of them, each two of them, or a cover of pairs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

from umiak.cluster import template
from umiak.spec import yamlfile
from umiak.spec.cluster import ClusterSpec, Destroy, default_zones

Change = Callable[[ClusterSpec], ClusterSpec]
KEY_ID = "1234abcd-12ab-34cd-56ef-1234567890ab"
ADMIN = "arn:aws:iam::123456789012:role/Admin"


def spec(**changes: Any) -> ClusterSpec:
    region = changes.pop("region", "us-west-2")
    return replace(ClusterSpec(changes.pop("name", "paddle"), region, default_zones(region)), **changes)


def _nodes(**changes: Any) -> Change:
    return lambda old: replace(old, nodes=replace(old.nodes, **changes))


def _network(**changes: Any) -> Change:
    return lambda old: replace(old, network=replace(old.network, **changes))


def _kubernetes(**changes: Any) -> Change:
    return lambda old: replace(old, kubernetes=replace(old.kubernetes, **changes))


def _region(region: str) -> Change:
    return lambda old: replace(old, region=region, zones=default_zones(region))


# Option → its values besides the default. The region first: other options follow it.
OPTIONS: dict[str, dict[str, Change]] = {
    "region": {"china": _region("cn-north-1"), "gov": _region("us-gov-west-1")},
    "zones": {"three": lambda old: replace(old, zones=(*old.zones, old.region + "c"))},
    "nat": {"per-zone": _network(nat="per-zone"), "none": _network(nat="none")},
    "cidr": {"small": _network(cidr="172.20.8.0/22")},
    "count": {"none": _nodes(count=0), "many": _nodes(count=450)},
    "types": {
        "arm": _nodes(types=("m7g.large",)),
        "several": _nodes(types=("m6i.large", "m5.large", "m6a.large", "m5a.large")),
    },
    "spot": {"yes": _nodes(spot=True)},
    "ssh": {"key": _nodes(key_name="laptop")},
    "kms": {"own": lambda old: replace(old, kms_key_arn=f"arn:aws:kms:{old.region}:123456789012:key/{KEY_ID}")},
    "api": {
        "one": _kubernetes(api_cidrs=("203.0.113.7/32",)),
        "private": _kubernetes(bastion=True),
        "two": _kubernetes(api_cidrs=("203.0.113.0/24", "198.51.100.1/32")),
    },
    "version": {"newer": _kubernetes(version="1.36")},
    "admin": {"named": _kubernetes(admin_arn=ADMIN)},
    "account": {"given": lambda old: replace(old, account="123456789012")},
    "destroy": {
        "all": lambda old: replace(old, destroy=Destroy("delete", "delete", "delete", "delete")),
        "nothing": lambda old: replace(old, destroy=Destroy("keep", "keep", "keep", "keep")),
    },
}
Choice = tuple[str, str]
CHOICES: list[Choice] = [(option, value) for option, values in OPTIONS.items() for value in values]


def chosen(choices: Iterable[Choice]) -> ClusterSpec:
    result = spec()
    for option, value in sorted(choices, key=lambda choice: list(OPTIONS).index(choice[0])):
        result = OPTIONS[option][value](result)
    assert not list(yamlfile.complaints(result)), list(yamlfile.complaints(result))
    return result


def label(choices: Iterable[Choice]) -> str:
    return "+".join(f"{option}={value}" for option, value in choices) or "default"


def singles_and_pairs() -> list[tuple[Choice, ...]]:
    pairs = [pair for pair in itertools.combinations(CHOICES, 2) if pair[0][0] != pair[1][0]]
    return [(), *((choice,) for choice in CHOICES), *pairs]


def cover() -> list[tuple[Choice, ...]]:
    """Few specs in which every pair of values occurs, defaults among them. Greedy, and the same each time."""
    every = {option: [None, *values] for option, values in OPTIONS.items()}
    missing = {
        frozenset(pair)
        for (one, these), (other, those) in itertools.combinations(every.items(), 2)
        for pair in itertools.product([(one, value) for value in these], [(other, value) for value in those])
    }
    rows = []
    while missing:
        row: list[tuple[str, str | None]] = []
        for option, values in every.items():
            gains = {value: sum(frozenset(((option, value), other)) in missing for other in row) for value in values}
            waiting = {value: sum((option, value) in pair for pair in missing) for value in values}
            row.append((option, max(values, key=lambda value: (gains[value], waiting[value]))))
        missing -= {frozenset(pair) for pair in itertools.combinations(row, 2)}
        rows.append(tuple((option, value) for option, value in row if value is not None))
    return rows


@cache
def templates() -> list[tuple[str, ClusterSpec, dict[str, Any]]]:
    """(label, spec, template) of the default, each option alone and all pairs."""
    built = []
    for choices in singles_and_pairs():
        one = chosen(choices)
        built.append((label(choices), one, template.build(one)))
    return built
