"""Splitting data on the cluster: a Job that runs `umiak data split` with the volume mounted, and what became of it."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from umiak.errors import InputError, RetryError, UmiakError
from umiak.jobs.manifests import CONTAINER, VOLUME
from umiak.jobs.pods import Pod
from umiak.jobs.pods import pod as read_pod
from umiak.kube import podspec
from umiak.kube.api import Api
from umiak.kube.objects import path
from umiak.kube.refusals import ApiError

LABEL = "umiak.dev/data"
SOURCE_ANNOTATION = "umiak.dev/split"
RETRIES = 4
KEEP_SECONDS = 24 * 3600
POLL_SECONDS = 1.0
DELETE_SECONDS = 90.0
TAIL = 40


@dataclass(frozen=True)
class Split:
    """What is to be cut, and where. Paths are those of the volume."""

    source: str
    out: str
    shards: int
    claim: str
    image: str
    layout: str = "2017"
    whole: tuple[str, ...] = ()
    header: bool = False
    overwrite: bool = False
    parquet: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    # Whose rights the pod has outside the cluster, as a bucket's reader; None: nobody's.
    account: str | None = None

    @property
    def name(self) -> str:
        """One Job per directory on the volume: two of them would write the same files."""
        plain = re.sub(r"[^a-z0-9]+", "-", self.out.lower()).strip("-")[:30].rstrip("-")
        return f"umiak-data-{plain}-{hashlib.sha256(self.out.encode()).hexdigest()[:6]}"

    def command(self) -> list[str]:
        source = self.source if "://" in self.source else f"{VOLUME}/{self.source.lstrip('/')}"
        words = ["umiak", "data", "split", source, f"{VOLUME}/{self.out.lstrip('/')}", f"--shards={self.shards}"]
        words += [f"--layout={self.layout}", *(f"--whole={pattern}" for pattern in self.whole)]
        words += ["--header"] * self.header + ["--parquet"] * self.parquet
        return words + ["--overwrite"] * self.overwrite


def manifest(split: Split) -> dict[str, Any]:
    labels = {LABEL: split.name, "app.kubernetes.io/managed-by": "umiak"}
    container = podspec.container(
        CONTAINER,
        split.image,
        split.command(),
        [podspec.mount("volume", VOLUME), podspec.mount("tmp", podspec.TMP)],
        cpu="500m",
        memory="256Mi",
        most_memory="1Gi",
        env=[{"name": name, "value": value} for name, value in {"HOME": podspec.TMP, **split.environment}.items()],
        ends_with_log=True,
    )
    volumes = [podspec.claimed("volume", split.claim), podspec.scratch("tmp")]
    pod = podspec.pod(container, volumes, owns_volumes=True, account=split.account)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": split.name,
            "labels": labels,
            "annotations": {SOURCE_ANNOTATION: " ".join(split.command())},
        },
        "spec": {
            "backoffLimit": RETRIES,
            "ttlSecondsAfterFinished": KEEP_SECONDS,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                    {
                        "action": "FailJob",
                        "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": [2]},
                    },
                ]
            },
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def submit(api: Api, namespace: str, split: Split) -> bool:
    """Create the Job; False if the same one is already at work. One that has ended makes room."""
    if api.find(path("PersistentVolumeClaim", namespace, split.claim)) is None:
        raise InputError(
            f"there is no claim {split.claim!r} in namespace {namespace!r}; kubectl get pvc -n {namespace} lists them"
        )
    if split.account:
        require_account(api, namespace, split.account, "--service-account")
    there = api.find(path("Job", namespace, split.name))
    if there is not None:
        if not _ended(there):
            if (there["metadata"].get("annotations") or {}).get(SOURCE_ANNOTATION) == " ".join(split.command()):
                return False
            raise InputError(
                f"job {split.name!r} is writing something else to {split.out!r}; wait for it, or choose another directory"
            )
        delete(api, namespace, split.name)
    api.create(path("Job", namespace), manifest(split))
    return True


def require_account(api: Api, namespace: str, account: str, where: str) -> None:
    """Without its account no pod of a Job is ever made, and nothing but an event says so. `where` a user names another."""
    try:
        if api.find(path("ServiceAccount", namespace, account)) is None:
            raise InputError(
                f"there is no service account {account!r} in namespace {namespace!r}; `umiak cluster up` makes umiak-data in "
                f"namespace default (-n default), or name another with {where}"
            )
    except ApiError as error:
        # Not everybody who may create Jobs may look at accounts.
        if error.code != 403:
            raise


def delete(api: Api, namespace: str, name: str) -> None:
    """Remove the Job and wait until the name is free, for as long as a pod may take to end and a little more."""
    api.delete(path("Job", namespace, name), propagationPolicy="Foreground")
    deadline = time.monotonic() + DELETE_SECONDS
    while api.find(path("Job", namespace, name)) is not None:
        if time.monotonic() > deadline:
            raise RetryError(
                f"the last job {name!r} is still being deleted after {DELETE_SECONDS:.0f} s: see what holds it with "
                f"kubectl describe job -n {namespace} {name}, then try again"
            )
        time.sleep(POLL_SECONDS / 4)


def follow(api: Api, namespace: str, name: str, say: Callable[[str], None]) -> list[str]:
    """Tell what happens until the Job has ended; its last lines. Raises its failure."""
    for text in _changes(api, namespace, name):
        say(text)
    job = api.find(path("Job", namespace, name))
    if job is None:
        raise UmiakError(f"job {name!r} was deleted before it ended")
    pods = _pods(api, namespace, name)
    lines = _log(api, namespace, pods[-1]) if pods else []
    if _ended(job) == "Complete":
        return lines
    code = next((pod.end.code for pod in reversed(pods) if pod.end), 1)
    cause = next((line.removeprefix("umiak: ") for line in reversed(lines) if line.startswith("umiak: ")), "")
    error = UmiakError(cause or (lines[-1] if lines else f"job {name!r} failed: {_reason(job)}"))
    error.exit_code = code or 1
    raise error


def _changes(api: Api, namespace: str, name: str) -> Iterator[str]:
    told = ""
    while True:
        job = api.find(path("Job", namespace, name))
        if job is None or _ended(job):
            return
        pods = _pods(api, namespace, name)
        text = _state(api, namespace, pods[-1]) if pods else "waiting for a pod"
        if text and text != told:
            told = text
            yield text
        time.sleep(POLL_SECONDS)


def _state(api: Api, namespace: str, pod: Pod) -> str:
    if pod.phase == "Pending":
        waiting = " ".join(pod.waiting or ()) or pod.conditions.get("PodScheduled", {}).get("message", "")
        return f"pod {pod.name} is pending" + (f": {waiting}" if waiting else "")
    lines = _log(api, namespace, pod)
    return lines[-1] if lines else ""


def _log(api: Api, namespace: str, pod: Pod) -> list[str]:
    try:
        return api.text(path("Pod", namespace, pod.name, "log"), tailLines=TAIL).splitlines()
    except ApiError:
        # The container has not started, or its node is away.
        return []


def _pods(api: Api, namespace: str, name: str) -> list[Pod]:
    found = [read_pod(item) for item in api.items(path("Pod", namespace), labelSelector=f"{LABEL}={name}")]
    return sorted(found, key=lambda pod: str(pod.created))


def _ended(job: Mapping[str, Any]) -> str:
    """Complete, Failed, or empty while it runs."""
    conditions = job.get("status", {}).get("conditions") or []
    return next(
        (each["type"] for each in conditions if each["type"] in ("Complete", "Failed") and each["status"] == "True"), ""
    )


def _reason(job: Mapping[str, Any]) -> str:
    conditions = job.get("status", {}).get("conditions") or []
    return next((each.get("message", "") for each in conditions if each["type"] == "Failed"), "no reason given")
