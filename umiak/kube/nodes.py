"""Nodes as the API describes them, read once into a type. Judges nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from umiak.kube.objects import Object, amount, moment


@dataclass(frozen=True)
class Node:
    name: str
    ready: bool
    since: datetime | None
    silent: bool
    open: bool
    taints: tuple[Object, ...]
    labels: dict[str, str]
    cpu: Decimal
    memory: Decimal
    pods: int
    provider: str = ""


def node(item: Object) -> Node:
    status = item.get("status", {})
    ready: Object = next((each for each in status.get("conditions") or [] if each["type"] == "Ready"), {})
    room = status.get("allocatable", {})
    return Node(
        name=item["metadata"]["name"],
        ready=ready.get("status") == "True",
        since=moment(ready.get("lastTransitionTime")),
        silent=ready.get("status") == "Unknown",
        open=not item.get("spec", {}).get("unschedulable", False),
        taints=tuple(item.get("spec", {}).get("taints") or ()),
        labels=item["metadata"].get("labels") or {},
        cpu=amount(room.get("cpu")),
        memory=amount(room.get("memory")),
        pods=int(room.get("pods", 0)),
        provider=item.get("spec", {}).get("providerID") or "",
    )
