"""What a cluster on AWS needs from Kubernetes: nodes that are ready, the volume `efsvol`, and what must go before AWS does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from umiak.cluster import manifests, waiting
from umiak.errors import InputError, RetryError, UmiakError
from umiak.kube.nodes import node
from umiak.kube.objects import path, path_of

if TYPE_CHECKING:
    from umiak.kube.api import Api

NODES_SECONDS = 900.0
# A new API server takes a while to be found by its name and to know who may enter.
NEW_SECONDS, PRIVATE_SECONDS = 180.0, 15.0

Connect = Callable[[Path], "Api"]
"""From a kubeconfig to a client."""


def wait_for_nodes(api: Api, count: int, private: bool, say: Callable[[str], None]) -> None:
    patience = waiting.Patience(PRIVATE_SECONDS if private else NEW_SECONDS)
    shown = -1
    for moved in waiting.pauses(NODES_SECONDS, f"the start of {count} nodes"):
        try:
            there = sum(node(item).ready for item in api.items(path("Node", None)))
        except UmiakError as error:
            patience.bear(_explained(error, private))
            continue
        patience.calm()
        if there != shown:
            moved()
            say(f"nodes ready: {there} of {count}")
            shown = there
        if there >= count:
            return


def _explained(error: UmiakError, private: bool) -> UmiakError:
    if private:
        return RetryError(
            "the cluster exists, but its API server can be reached only from inside its VPC (kubernetes.api_cidrs is empty): "
            "run the same command on a machine there, or choose who can reach it: `umiak cluster up --api-access mine` or private"
        )
    return error


def apply(api: Api, handle: str, old_volume: bool = False) -> list[str]:
    """Create what is missing of the volume's objects; their names."""
    made = []
    for body in manifests.build(handle, old_volume):
        kind, meta = body["kind"], body["metadata"]
        found = api.find(path_of(body))
        if found is None:
            api.create(path(kind, meta.get("namespace")), body)
            made.append(f"{kind} {meta['name']}")
        elif kind == "PersistentVolume" and found["spec"].get("csi", {}).get("volumeHandle") != handle:
            raise InputError(
                f"the PersistentVolume {meta['name']} exists and refers to another file system; "
                f"remove it (kubectl delete pv {meta['name']}) and run this again"
            )
    return made


def exposed(api: Api) -> list[str]:
    """Where the objects are for which Kubernetes keeps load balancers."""
    balanced = [item for item in api.items(path("Service", None)) if item.get("spec", {}).get("type") == "LoadBalancer"]
    # The API leaves the kind out of the items of a list.
    return [
        path_of({**item, "kind": kind})
        for kind, found in (("Service", balanced), ("Ingress", api.items(path("Ingress", None))))
        for item in found
    ]
