"""Cancel and delete: what ends a job in the cluster, and what is waited for until it is so."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from umiak.contract.volume import ALIVE
from umiak.errors import InputError, RetryError
from umiak.jobs import status, volume_pod
from umiak.jobs.manifests import (
    CANCELLED_ANNOTATION,
    CLAIM_ANNOTATION,
    CONTAINER,
    LABEL,
    VOLUME,
)
from umiak.jobs.submit import remove
from umiak.kube.api import Api
from umiak.kube.objects import Object, path
from umiak.kube.refusals import ApiError

POLL_SECONDS = 0.5
# Beyond the pods' own grace: Kubernetes needs a moment to see that they are gone.
MARGIN_SECONDS = 60
MADE = ("Service", "NetworkPolicy", "ConfigMap", "Secret", "Pod")


def cancel(api: Api, namespace: str, name: str, say: Callable[[str], None]) -> None:
    """Suspend the Job: its pods write a checkpoint and end. Returns when they have."""
    job = status.find(api, namespace, name)
    state = status.gather(api, namespace, name).state
    if state in ("done", "failed"):
        raise InputError(f"the job {name!r} is {state} already: there is nothing to cancel")
    if state == "deleting":
        raise InputError(f"the job {name!r} is being deleted: there is nothing to cancel")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    api.patch(
        path("Job", namespace, name),
        {"metadata": {"annotations": {CANCELLED_ANNOTATION: now}}, "spec": {"suspend": True}},
    )
    grace = _grace(job)
    say(f"{name}: asked to stop; its pods have {grace} s for a checkpoint")
    _until(
        lambda: not _live(api, namespace, name),
        grace + MARGIN_SECONDS,
        f"pods of {name!r} are still there; see `umiak job status {name} -n {namespace}`",
    )


def delete(api: Api, namespace: str, name: str, output: bool, say: Callable[[str], None]) -> None:
    """Remove what submit made, and with `output` what the job wrote. Returns when nothing is left."""
    job = status.find(api, namespace, name)
    annotations = job["metadata"].get("annotations") or {}
    # The directory follows from the name; an annotation that somebody edited must not decide what is deleted.
    claim, where = annotations.get(CLAIM_ANNOTATION, ""), f"{name}/output"
    remove(api, {**job, "kind": "Job"})
    grace = _grace(job)
    _until(
        lambda: not left(api, namespace, name),
        grace + MARGIN_SECONDS,
        f"parts of {name!r} are still there: a pod on a lost node stays until `kubectl delete node NODE`; "
        f"see kubectl get all -n {namespace} -l {LABEL}={name}",
    )
    say(f"{name}: deleted")
    made = api.find(path("PersistentVolumeClaim", namespace, claim)) if claim else None
    ours = made is not None and made["metadata"].get("labels", {}).get(LABEL) == name
    if not output:
        say(f"the output stays in {where} of claim {claim}; a new submit resumes from it")
    elif ours and made is not None:
        remove(api, {**made, "kind": "PersistentVolumeClaim"})
        say(f"the claim {claim} and the output on it are deleted")
    elif made is not None:
        wipe(api, namespace, claim, where, _image(job))
        say(f"the output in {where} of claim {claim} is deleted")


def left(api: Api, namespace: str, name: str) -> list[str]:
    """What of a job is still in the cluster, but for its claim."""
    found = [f"Job {name}"] if api.find(path("Job", namespace, name)) else []
    for kind in MADE:
        try:
            items = api.items(path(kind, namespace), labelSelector=f"{LABEL}={name}")
        except ApiError as error:
            if error.code == 403:
                continue
            raise
        found += [f"{kind} {item['metadata']['name']}" for item in items]
    return found


def wipe(api: Api, namespace: str, claim: str, where: str, image: str) -> None:
    """Delete a directory on the volume, and the one around it if nothing else is in there."""
    parent = where.partition("/")[0]
    # The pod stays while there is something to remove, however long that takes.
    awake = f"while kill -0 $! 2>/dev/null; do touch {ALIVE}; sleep 0.2; done; wait $!"
    script = f"rm -rf {VOLUME}/{where} & {awake} && (rmdir {VOLUME}/{parent} 2>/dev/null || true)"
    with volume_pod.started(api, namespace, claim, image, writable=True) as pod:
        for _ in pod.run(["sh", "-c", script]):
            pass


def _image(job: Object) -> str:
    containers: list[Any] = job["spec"]["template"]["spec"]["containers"]
    return str(next(each["image"] for each in containers if each["name"] == CONTAINER))


def _grace(job: Object) -> int:
    return int(job["spec"]["template"]["spec"].get("terminationGracePeriodSeconds") or 30)


def _live(api: Api, namespace: str, name: str) -> list[Object]:
    items = api.items(path("Pod", namespace), labelSelector=f"{LABEL}={name}")
    return [item for item in items if item.get("status", {}).get("phase") in ("Pending", "Running")]


def _until(done: Callable[[], bool], within: float, otherwise: str) -> None:
    limit = time.monotonic() + within
    while not done():
        if time.monotonic() > limit:
            raise RetryError(otherwise)
        time.sleep(POLL_SECONDS)
