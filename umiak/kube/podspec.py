"""Hardened PodSpecs: how umiak starts any container. Not as root, without capabilities, on a root file system that is read-only,
and without a token of the API server, so that they also run where only restricted pods may.

Pure. What is None is left out; keys are in the order in which a dry run shows them.
"""

from __future__ import annotations

from collections.abc import Sequence

from umiak.kube.objects import Object

UID = 1000
"""User and group of every container, and owner of what they write on a volume."""
TMP = "/tmp"


def container(
    name: str,
    image: str,
    command: Sequence[str],
    mounts: Sequence[Object],
    *,
    cpu: str,
    memory: str,
    most_memory: str,
    working_dir: str | None = None,
    env: Sequence[Object] | None = None,
    ports: Sequence[Object] | None = None,
    termination_log: str | None = None,
    ends_with_log: bool = False,
) -> Object:
    """`ends_with_log`: of a container that fails without a termination message, the end of its log stands for it."""
    return _given(
        {
            "name": name,
            "image": image,
            "command": list(command),
            "workingDir": working_dir,
            "env": None if env is None else list(env),
            "ports": None if ports is None else list(ports),
            "resources": {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": most_memory}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "terminationMessagePath": termination_log,
            "terminationMessagePolicy": "FallbackToLogsOnError" if ends_with_log else None,
            "volumeMounts": list(mounts),
        }
    )


def pod(
    container: Object,
    volumes: Sequence[Object],
    *,
    owns_volumes: bool,
    subdomain: str | None = None,
    account: str | None = None,
    grace_seconds: int | None = None,
    tolerations: Sequence[Object] | None = None,
    spread: Sequence[Object] | None = None,
) -> Object:
    """A pod of one container, which is never restarted. `owns_volumes`: files on its volumes are made its group's first."""
    return _given(
        {
            "subdomain": subdomain,
            "restartPolicy": "Never",
            "serviceAccountName": account,
            "terminationGracePeriodSeconds": grace_seconds,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": UID,
                "runAsGroup": UID,
                **({"fsGroup": UID, "fsGroupChangePolicy": "OnRootMismatch"} if owns_volumes else {}),
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "tolerations": None if tolerations is None else list(tolerations),
            "topologySpreadConstraints": None if spread is None else list(spread),
            "containers": [container],
            "volumes": list(volumes),
        }
    )


def mount(name: str, where: str, *, read_only: bool = False) -> Object:
    return {"name": name, "mountPath": where, **({"readOnly": True} if read_only else {})}


def claimed(name: str, claim: str, *, read_only: bool = False) -> Object:
    """The volume behind a PersistentVolumeClaim."""
    return {"name": name, "persistentVolumeClaim": {"claimName": claim, **({"readOnly": True} if read_only else {})}}


def scratch(name: str, most: str | None = None) -> Object:
    """An empty directory on the node's disk that goes with the pod; a pod that has more than `most` in it is evicted."""
    return {"name": name, "emptyDir": {"sizeLimit": most} if most else {}}


def _given(fields: Object) -> Object:
    return {key: value for key, value in fields.items() if value is not None}
