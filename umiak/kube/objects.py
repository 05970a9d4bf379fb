"""Kubernetes objects are plain dicts, as the API writes them: where each kind is found, and how their fields are written."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from umiak.spec.job import quantity

Object = dict[str, Any]

# Kind → (API version, the word in its path).
KINDS = {
    "Job": ("batch/v1", "jobs"),
    "Pod": ("v1", "pods"),
    "Service": ("v1", "services"),
    "Secret": ("v1", "secrets"),
    "ConfigMap": ("v1", "configmaps"),
    "Event": ("v1", "events"),
    "Node": ("v1", "nodes"),
    "Namespace": ("v1", "namespaces"),
    "PersistentVolume": ("v1", "persistentvolumes"),
    "PersistentVolumeClaim": ("v1", "persistentvolumeclaims"),
    "ServiceAccount": ("v1", "serviceaccounts"),
    "StorageClass": ("storage.k8s.io/v1", "storageclasses"),
    "NetworkPolicy": ("networking.k8s.io/v1", "networkpolicies"),
    "Ingress": ("networking.k8s.io/v1", "ingresses"),
}


def path(kind: str, namespace: str | None, name: str = "", below: str = "") -> str:
    """Where objects of a kind are: the collection, or one of them, or something below it like a pod's log."""
    version, word = KINDS[kind]
    root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    parts = [root, *(["namespaces", namespace] if namespace else []), word, *([name] if name else []), below]
    return "/".join(part for part in parts if part)


def path_of(made: Object) -> str:
    """Where an object is that says of itself what it is."""
    meta = made["metadata"]
    return path(made["kind"], meta.get("namespace"), meta["name"])


def moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def amount(text: Any) -> Decimal:
    return quantity(str(text)) if text else Decimal(0)
