"""How many workers fit on the nodes as they are. Pure; a simpler scheduler than the real one: selectors, taints, room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from umiak.kube.nodes import Node
from umiak.kube.objects import Object, amount

GIB = Decimal(1024**3)


@dataclass(frozen=True)
class Room:
    """What is left on a node, and why no worker may go there, if none may."""

    node: Node
    cpu: Decimal
    memory: Decimal
    pods: int
    closed: str = ""

    def fits(self, cpu: Decimal, memory: Decimal) -> int:
        if self.closed:
            return 0
        by_cpu = int(self.cpu / cpu) if cpu else self.pods
        by_memory = int(self.memory / memory) if memory else self.pods
        return max(0, min(self.pods, by_cpu, by_memory))

    def missing(self, cpu: Decimal, memory: Decimal) -> str:
        """Why not one more worker fits; empty if it does."""
        if self.closed:
            return self.closed
        lacks = []
        if self.cpu < cpu:
            lacks.append(f"{_number(max(self.cpu, Decimal(0)))} of {_number(self.node.cpu)} CPU free")
        if self.memory < memory:
            lacks.append(f"{_gib(max(self.memory, Decimal(0)))} of {_gib(self.node.memory)} memory free")
        if self.pods < 1:
            lacks.append(f"all {self.node.pods} places for pods taken")
        return ", ".join(lacks)


def rooms(nodes: Sequence[Node], pods: Iterable[Object], template: Object) -> list[Room]:
    """Every node with what the pods on it leave over; `template` is the PodSpec of a worker."""
    used: dict[str, list[tuple[Decimal, Decimal]]] = {}
    for item in pods:
        name = item.get("spec", {}).get("nodeName")
        if name and item.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            used.setdefault(name, []).append(requests(item["spec"]))
    found = []
    for node in nodes:
        taken = used.get(node.name, [])
        found.append(
            Room(
                node,
                node.cpu - sum((cpu for cpu, _ in taken), Decimal(0)),
                node.memory - sum((memory for _, memory in taken), Decimal(0)),
                node.pods - len(taken),
                _closed(node, template),
            )
        )
    return found


def requests(spec: Object) -> tuple[Decimal, Decimal]:
    """CPU and memory that a pod asks for: its containers together, or its largest first step."""
    both = []
    for name in ("cpu", "memory"):
        running = sum((_asked(each, name) for each in spec.get("containers", [])), Decimal(0))
        first = max((_asked(each, name) for each in spec.get("initContainers") or []), default=Decimal(0))
        both.append(max(running, first) + amount(spec.get("overhead", {}).get(name)))
    return both[0], both[1]


def _asked(container: Object, name: str) -> Decimal:
    resources = container.get("resources", {})
    return amount(resources.get("requests", {}).get(name) or resources.get("limits", {}).get(name))


def _closed(node: Node, template: Object) -> str:
    if not node.ready:
        return "not ready"
    if not node.open:
        return "cordoned (kubectl uncordon lets pods in)"
    for key, value in (template.get("nodeSelector") or {}).items():
        if node.labels.get(key) != value:
            return f"without the label {key}={value} of pod.nodeSelector"
    for taint in node.taints:
        if taint["effect"] in ("NoSchedule", "NoExecute") and not _tolerated(taint, template.get("tolerations") or []):
            return f"tainted {taint['key']}, which pod.tolerations does not tolerate"
    return ""


def _tolerated(taint: Object, tolerations: list[Object]) -> bool:
    for each in tolerations:
        if each.get("effect") not in (None, "", taint["effect"]):
            continue
        if each.get("operator") == "Exists":
            if each.get("key") in (None, "", taint["key"]):
                return True
        elif each.get("key") == taint["key"] and each.get("value", "") == taint.get("value", ""):
            return True
    return False


def warning(found: Sequence[Room], template: Object, workers: int) -> str | None:
    """What to tell before a submit: that not all workers fit, and what is missing where."""
    cpu, memory = requests(template)
    fit = sum(room.fits(cpu, memory) for room in found)
    if fit >= workers:
        return None
    lacking = shortages(found, cpu, memory) if found else "there are no nodes"
    return (
        f"the nodes have room for {fit} of {workers} workers of {_number(cpu)} CPU and {_gib(memory)} "
        f"({lacking}): the job waits until there is more; lower cpu, memory or workers, or add nodes"
    )


def shortages(found: Sequence[Room], cpu: Decimal, memory: Decimal) -> str:
    """`n1, n2: 0.2 of 2 CPU free; n3: not ready`: nodes with the same trouble together."""
    by_reason: dict[str, list[str]] = {}
    for room in found:
        fits = room.fits(cpu, memory)
        left = Room(room.node, room.cpu - fits * cpu, room.memory - fits * memory, room.pods - fits, room.closed)
        reason = left.missing(cpu, memory)
        if reason:
            by_reason.setdefault(f"room for {fits}, then {reason}" if fits else reason, []).append(room.node.name)
    return "; ".join(f"{_names(names)}: {reason}" for reason, names in by_reason.items())


def _names(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def _number(value: Decimal) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _gib(value: Decimal) -> str:
    return f"{_number(value / GIB)}Gi"
