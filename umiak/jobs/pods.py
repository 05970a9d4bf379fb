"""Pods as the API describes them, read once into types. Knows Kubernetes' fields, judges nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from umiak.contract.termination import Termination
from umiak.jobs.manifests import CONTAINER
from umiak.kube.objects import Object, moment

INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True)
class End:
    """How a container ended, by Kubernetes' account and by its own."""

    code: int
    reason: str
    message: str
    time: datetime | None
    report: Termination | None


@dataclass(frozen=True)
class Pod:
    name: str
    uid: str
    worker: int
    phase: str
    node: str
    created: datetime | None
    started: datetime | None
    deleted: datetime | None
    reason: str
    message: str
    image: str
    waiting: tuple[str, str] | None
    end: End | None
    conditions: dict[str, Object] = field(default_factory=dict)

    @property
    def live(self) -> bool:
        return self.phase in ("Pending", "Running") and self.deleted is None


def pod(item: Object) -> Pod:
    meta, spec, status = item["metadata"], item.get("spec", {}), item.get("status", {})
    index = meta.get("annotations", {}).get(INDEX) or meta.get("labels", {}).get(INDEX) or "0"
    states = [each for each in status.get("containerStatuses") or [] if each.get("name") == CONTAINER]
    state = states[0].get("state", {}) if states else {}
    images = [each.get("image", "") for each in spec.get("containers", []) if each.get("name") == CONTAINER]
    waiting = state.get("waiting")
    running = state.get("running") or state.get("terminated") or {}
    return Pod(
        name=meta["name"],
        uid=meta.get("uid", ""),
        worker=int(index),
        phase=status.get("phase", "Pending"),
        node=spec.get("nodeName", ""),
        created=moment(meta.get("creationTimestamp")),
        started=moment(running.get("startedAt")),
        deleted=moment(meta.get("deletionTimestamp")),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        image=images[0] if images else "",
        waiting=(waiting.get("reason", ""), waiting.get("message", "")) if waiting else None,
        end=_end(state["terminated"]) if state.get("terminated") else None,
        conditions={each["type"]: each for each in status.get("conditions") or []},
    )


def _end(state: Object) -> End:
    message = state.get("message") or ""
    return End(
        code=int(state.get("exitCode", 0)),
        reason=state.get("reason", ""),
        message=message,
        time=moment(state.get("finishedAt")),
        report=Termination.decode(message),
    )
