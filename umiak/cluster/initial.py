"""The first cluster.yaml: from flags, and once from the variables the kube-up tutorials had their readers export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from umiak.errors import InputError
from umiak.spec import yamlfile
from umiak.spec.cluster import ClusterSpec, Kubernetes, Nodes, default_zones

# Several types of one size, so that AWS taking one back does not take all.
SPOT_TYPES = ("m6i.large", "m5.large", "m6a.large", "m5a.large")


@dataclass(frozen=True)
class Given:
    """A value and where the user wrote it, so that a complaint can name the place."""

    value: Any
    source: str


# Variable → the field it becomes.
KUBE_UP = {
    "KUBE_AWS_INSTANCE_PREFIX": "name",
    "KUBE_AWS_ZONE": "zone",
    "NUM_NODES": "nodes",
    "NODE_SIZE": "types",
}
_FIELDS = {"name": "name", "zone": "region and the first of zones", "nodes": "nodes.count", "types": "nodes.types"}
# Variable → why it means nothing here.
MEANINGLESS = {
    "MASTER_SIZE": "AWS runs the control plane of EKS, there is no master to size",
    "AWS_S3_BUCKET": "kube-up kept its own binaries there; a new bucket is created for data, with a name of its own",
    "AWS_S3_REGION": "the bucket for data is in the cluster's region",
}


def from_environment(environment: Mapping[str, str]) -> tuple[dict[str, Given], list[str]]:
    """(values, notes): what the variables say, and what became of each."""
    values, notes = {}, []
    for variable, name in KUBE_UP.items():
        if text := environment.get(variable):
            values[name] = Given(_number(text, variable) if name == "nodes" else text, variable)
            notes.append(f"{variable}={text}: {_FIELDS[name]}")
    if "zone" in values:
        values["region"] = Given(values["zone"].value[:-1], "KUBE_AWS_ZONE")
    if "types" in values:
        values["types"] = Given((values["types"].value,), "NODE_SIZE")
    notes += [
        f"{variable}: has no meaning on EKS: {why}" for variable, why in MEANINGLESS.items() if variable in environment
    ]
    return values, notes


def _number(text: str, variable: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(f"{variable} must be a whole number, not {text!r}") from None


def build(given: Mapping[str, Given]) -> ClusterSpec:
    """The spec of the given values and our defaults. Keys: name, region, zone, nodes, types, spot, key_name, kms_key_arn,
    api_cidrs, bastion."""
    for name in ("name", "region"):
        if name not in given:
            raise InputError(f"--{name} is missing; write --{name} {'paddle' if name == 'name' else 'us-west-2'}")

    def value(name: str, default: Any) -> Any:
        return given[name].value if name in given else default

    spot = value("spot", False)
    spec = ClusterSpec(
        name=value("name", None),
        region=value("region", None),
        zones=default_zones(value("region", None), value("zone", None)),
        kubernetes=Kubernetes(api_cidrs=value("api_cidrs", ()), bastion=value("bastion", False)),
        nodes=Nodes(
            count=value("nodes", Nodes.count),
            types=value("types", SPOT_TYPES if spot else Nodes.types),
            spot=spot,
            key_name=value("key_name", None),
        ),
        kms_key_arn=value("kms_key_arn", None),
    )
    keys = {
        "zones": "zone",
        "nodes.count": "nodes",
        "nodes.types": "types",
        "nodes.key_name": "key_name",
        "kubernetes.api_cidrs": "api_cidrs",
    }
    wrong = []
    for path, complaint in yamlfile.complaints(spec):
        key = keys.get(path, path)
        wrong.append(f"{given[key].source if key in given else path}: {complaint}")
    if wrong:
        raise InputError("\n".join(wrong))
    return spec


def text(spec: ClusterSpec) -> str:
    head = "# An AWS cluster for umiak. `umiak cluster validate` checks this file, `umiak cluster cost` prices it.\n\n"
    return head + yamlfile.dump(spec)
