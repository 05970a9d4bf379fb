"""API objects as a cluster records them, for tests of what we make of them."""

from __future__ import annotations

import json
from typing import Any

Object = dict[str, Any]

UID = "5d1f0000-0000-4000-8000-000000000001"
START = "2026-11-16T09:00:00Z"


def job(name: str = "rec", workers: int = 3, **more: Any) -> Object:
    """A Job of ours as it stands in the cluster while it runs."""
    container = {
        "name": "worker",
        "image": "umiak/runtime:1",
        "resources": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "2Gi"}},
    }
    annotations = {"umiak.dev/claim": "efsvol", "umiak.dev/output": f"{name}/output", **more.pop("annotations", {})}
    return {
        "kind": "Job",
        "apiVersion": "batch/v1",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": UID,
            "creationTimestamp": START,
            "labels": {"umiak.dev/job": name},
            "annotations": annotations,
        },
        "spec": {
            "suspend": more.pop("suspend", False),
            "completions": workers,
            "template": {"spec": {"containers": [container], "terminationGracePeriodSeconds": 1}},
        },
        "status": {"startTime": START, **more},
    }


def ended(kind: str, message: str = "") -> list[Object]:
    return [{"type": kind, "status": "True", "message": message, "lastTransitionTime": "2026-11-16T09:10:00Z"}]


def pod(worker: int = 0, *, name: str = "", state: Object | None = None, of: str = "rec", **more: Any) -> Object:
    """`state` is the container's; `more` goes into the pod's status, but for node, created, deleted."""
    name = name or f"{of}-{worker}-abcde"
    meta: Object = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "creationTimestamp": more.pop("created", START),
        "labels": {
            "umiak.dev/job": of,
            "batch.kubernetes.io/controller-uid": UID,
            "batch.kubernetes.io/job-completion-index": str(worker),
        },
    }
    if deleted := more.pop("deleted", None):
        meta["deletionTimestamp"] = deleted
    status: Object = {"phase": "Running", **more}
    node = status.pop("node", f"n{worker + 1}")
    if state:
        status["containerStatuses"] = [{"name": "worker", "state": state}]
    spec = {"nodeName": node, "containers": [{"name": "worker", "image": "umiak/runtime:1"}]}
    return {"kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def running(worker: int = 0, **more: Any) -> Object:
    conditions = [{"type": "Ready", "status": "True"}]
    return pod(worker, state={"running": {"startedAt": "2026-11-16T09:00:05Z"}}, conditions=conditions, **more)


def failed(
    worker: int, code: int, time: str = "09:05:00", message: str = "", reason: str = "Error", **more: Any
) -> Object:
    end = {
        "exitCode": code,
        "reason": reason,
        "message": message,
        "startedAt": "2026-11-16T09:00:05Z",
        "finishedAt": f"2026-11-16T{time}Z",
    }
    return pod(worker, state={"terminated": end}, phase="Failed", **more)


def report(cause: str, code: int = 75, because_of: int | None = None, log: str = "", time: str = "09:04:59") -> str:
    """A termination message as umiak/pod writes it."""
    given: Object = {"cause": cause, "code": code, "first": because_of is None, "log": log, "round": 7}
    given["time"] = f"2026-11-16T{time}+00:00"
    if because_of is not None:
        given["because_of"] = because_of
    return json.dumps(given)


def waiting(worker: int, reason: str, message: str = "", **more: Any) -> Object:
    return pod(worker, state={"waiting": {"reason": reason, "message": message}}, phase="Pending", **more)


def unscheduled(worker: int, message: str) -> Object:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return pod(worker, phase="Pending", node="", conditions=[{**condition, "lastTransitionTime": START}])


def event(about: Object, reason: str, message: str, time: str = "09:01:00", kind: str = "Pod") -> Object:
    meta = about["metadata"]
    return {
        "kind": "Event",
        "metadata": {"name": f"{meta['name']}.{reason}.{time}", "namespace": "default"},
        "involvedObject": {"kind": kind, "name": meta["name"], "uid": meta["uid"]},
        "reason": reason,
        "message": message,
        "lastTimestamp": f"2026-11-16T{time}Z",
    }


def node(name: str, cpu: str = "2", memory: str = "8Gi", ready: str = "True", **more: Any) -> Object:
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": "2026-11-16T09:03:00Z"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": more.pop("labels", {})},
        "spec": more.pop("spec", {}),
        "status": {
            "conditions": [condition],
            "allocatable": {"cpu": cpu, "memory": memory, "pods": "110", **more},
        },
    }
