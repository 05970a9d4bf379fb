"""What CloudFormation does to make a resource of each type; by subject in `resources_network`, `_storage` and `_eks`."""

from __future__ import annotations

from tests.fake_aws import resources_eks, resources_network, resources_storage
from tests.fake_aws.properties import Maker, Properties, Result

__all__ = ["MAKERS", "Maker", "Properties", "make"]

MAKERS = resources_network.MAKERS | resources_storage.MAKERS | resources_eks.MAKERS


def make(kind: str, maker: Maker, properties: Properties) -> Result:
    """(physical id, attributes)."""
    if kind not in MAKERS:
        raise ValueError(f"the resource type {kind} is not modelled")
    return MAKERS[kind](maker, properties)
