"""A volume pod: short-lived, mounts a volume, so that a client far away can look at it, read it, or clear it.

It is always deleted: here when the block ends, and by itself if this process dies, because it ends a minute after the last
command in it and its Job is then removed by Kubernetes.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from umiak.contract.volume import ALIVE
from umiak.errors import InputError, RetryError, UmiakError
from umiak.jobs.manifests import CONTAINER, VOLUME
from umiak.jobs.pods import pod as read_pod
from umiak.kube import command, podspec
from umiak.kube.api import Api
from umiak.kube.objects import path

LABEL = "umiak.dev/visitor"
START_SECONDS = 180.0
POLL_SECONDS = 0.3
_WAIT = f"touch {ALIVE}; while [ $(($(date +%s) - $(stat -c %Y {ALIVE}))) -lt 60 ]; do sleep 1; done"
_NEVER_STARTS = ("ErrImageNeverPull", "InvalidImageName", "ImagePullBackOff", "CreateContainerConfigError")


@dataclass(frozen=True)
class VolumePod:
    """A pod that runs, with the volume mounted."""

    api: Api
    namespace: str
    pod: str

    def run(self, words: Sequence[str], line: str = "") -> Iterator[bytes]:
        return command.run(self.api, self.namespace, self.pod, words, line)


def manifest(name: str, claim: str, image: str, writable: bool) -> dict[str, Any]:
    container = podspec.container(
        CONTAINER,
        image,
        ["sh", "-c", _WAIT],
        [podspec.mount("volume", VOLUME, read_only=not writable), podspec.mount("tmp", podspec.TMP)],
        cpu="100m",
        memory="128Mi",
        most_memory="512Mi",
    )
    volumes = [podspec.claimed("volume", claim, read_only=not writable), podspec.scratch("tmp")]
    pod = podspec.pod(container, volumes, owns_volumes=False, grace_seconds=1)
    labels = {LABEL: name, "app.kubernetes.io/managed-by": "umiak"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": 0,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


@contextmanager
def started(api: Api, namespace: str, claim: str, image: str, writable: bool = False) -> Iterator[VolumePod]:
    if api.find(path("PersistentVolumeClaim", namespace, claim)) is None:
        raise InputError(
            f"there is no claim {claim!r} in namespace {namespace!r}; kubectl get pvc -n {namespace} lists them"
        )
    name = f"umiak-volume-{secrets.token_hex(4)}"
    api.create(path("Job", namespace), manifest(name, claim, image, writable))
    try:
        yield VolumePod(api, namespace, _running(api, namespace, name, image))
    finally:
        with suppress(UmiakError):
            api.delete(path("Job", namespace, name), propagationPolicy="Background")


def _running(api: Api, namespace: str, name: str, image: str) -> str:
    deadline = time.monotonic() + START_SECONDS
    while True:
        found = [read_pod(item) for item in api.items(path("Pod", namespace), labelSelector=f"{LABEL}={name}")]
        if found and found[0].phase == "Running":
            return found[0].name
        reason = "Kubernetes made no pod"
        if found:
            waiting = found[0].waiting or ("", "")
            if waiting[0] in _NEVER_STARTS:
                raise InputError(
                    f"the pod that reads the volume cannot start from image {image!r}: {' '.join(waiting)}"
                )
            scheduled = found[0].conditions.get("PodScheduled", {})
            reason = scheduled.get("message") or " ".join(waiting).strip() or f"its phase is {found[0].phase}"
        if time.monotonic() > deadline:
            raise RetryError(f"the pod that reads the volume did not start within {START_SECONDS:.0f} s: {reason}")
        time.sleep(POLL_SECONDS)
