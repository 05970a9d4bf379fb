"""What a cluster on AWS needs from Kubernetes: nodes that are ready, the volume `efsvol`, and what must go before AWS does.

Talks through `Api`, a few words of a client that the caller brings: this package knows AWS, not Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from umiak.cluster import manifests, waiting
from umiak.errors import InputError, RetryError, UmiakError

NODES_SECONDS = 900.0
# A new API server takes a while to be found by its name and to know who may enter.
NEW_SECONDS, PRIVATE_SECONDS = 180.0, 15.0
_PATHS = {
    "PersistentVolume": "/api/v1/persistentvolumes",
    "PersistentVolumeClaim": "/api/v1/namespaces/{namespace}/persistentvolumeclaims",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
}


class Api(Protocol):
    def find(self, where: str) -> dict[str, Any] | None: ...

    def items(self, where: str) -> list[dict[str, Any]]: ...

    def create(self, where: str, body: dict[str, Any]) -> object: ...

    def delete(self, where: str) -> object: ...


# From a kubeconfig to a client.
Connect = Callable[[Path], Api]


def ready(nodes: list[dict[str, Any]]) -> list[str]:
    """Names of the nodes that can run pods."""
    return [
        node["metadata"]["name"]
        for node in nodes
        if any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
    ]


def wait_for_nodes(api: Api, count: int, private: bool, say: Callable[[str], None]) -> None:
    patience = waiting.Patience(PRIVATE_SECONDS if private else NEW_SECONDS)
    shown = -1
    for moved in waiting.pauses(NODES_SECONDS, f"the start of {count} nodes"):
        try:
            there = len(ready(api.items("/api/v1/nodes")))
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
            "the cluster is there, but its API server can be reached only from inside its VPC (kubernetes.api_cidrs is empty): "
            "run the same command on a machine there, or choose who reaches it: `umiak cluster up --api-access mine`, or private"
        )
    return error


def apply(api: Api, handle: str, old_volume: bool = False) -> list[str]:
    """Create what is missing of the volume's objects; their names."""
    made = []
    for body in manifests.build(handle, old_volume):
        meta = body["metadata"]
        where = _PATHS[body["kind"]].format(namespace=meta.get("namespace"))
        found = api.find(f"{where}/{meta['name']}")
        if found is None:
            api.create(where, body)
            made.append(f"{body['kind']} {meta['name']}")
        elif body["kind"] == "PersistentVolume" and found["spec"].get("csi", {}).get("volumeHandle") != handle:
            raise InputError(
                f"the PersistentVolume {meta['name']} is there and stands for another file system; "
                f"remove it (kubectl delete pv {meta['name']}) and run this again"
            )
    return made


def exposed(api: Api) -> list[str]:
    """Where the objects are for which Kubernetes keeps load balancers."""
    services = [
        f"/api/v1/namespaces/{item['metadata']['namespace']}/services/{item['metadata']['name']}"
        for item in api.items("/api/v1/services")
        if item.get("spec", {}).get("type") == "LoadBalancer"
    ]
    ingresses = [
        f"/apis/networking.k8s.io/v1/namespaces/{item['metadata']['namespace']}/ingresses/{item['metadata']['name']}"
        for item in api.items("/apis/networking.k8s.io/v1/ingresses")
    ]
    return services + ingresses
