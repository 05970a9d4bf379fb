"""A namespace of one test: a claim `efsvol` on a directory of the shared volume, and shorthands for what tests ask."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kube.cluster import Cluster

CLAIM = "efsvol"
KINDS = {
    "api/v1": ("pods", "services", "configmaps", "secrets", "persistentvolumeclaims", "serviceaccounts"),
    "apis/batch/v1": ("jobs",),
    "apis/networking.k8s.io/v1": ("networkpolicies",),
    "apis/rbac.authorization.k8s.io/v1": ("roles", "rolebindings"),
}
"""What a job could leave in a namespace."""


@dataclass(frozen=True)
class Namespace:
    cluster: Cluster
    name: str

    @staticmethod
    def create(cluster: Cluster) -> Namespace:
        made = Namespace(cluster, f"test-{secrets.token_hex(4)}")
        made.volume.mkdir()
        made.volume.chmod(0o777)
        itself = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": made.name}}
        cluster.apply(itself, *made._claimed(CLAIM, f"/efs/{made.name}"))
        return made

    @property
    def volume(self) -> Path:
        """The host's directory behind the claim `efsvol`."""
        return self.cluster.volume / self.name

    def claim(self, name: str, path: str) -> None:
        """A claim bound to an nfs volume: `/efs/…` or `/small`."""
        self.cluster.apply(*self._claimed(name, path))

    def _claimed(self, name: str, path: str, size: str = "10Gi") -> list[dict[str, Any]]:
        spec = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        volume = f"{self.name}-{name}"
        return [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": volume, "labels": {"umiak.test/namespace": self.name}},
                "spec": {
                    **spec,
                    "capacity": {"storage": size},
                    "nfs": {"server": self.cluster.place.control, "path": path},
                    "claimRef": {"namespace": self.name, "name": name},
                },
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": self.name},
                "spec": {**spec, "resources": {"requests": {"storage": size}}, "volumeName": volume},
            },
        ]

    def kubectl(self, *words: str, check: bool = True, text: str = "") -> str:
        return self.cluster.kubectl("-n", self.name, *words, check=check, text=text)

    def apply(self, *objects: dict[str, Any]) -> None:
        for each in objects:
            each.setdefault("metadata", {})["namespace"] = self.name
        self.cluster.apply(*objects)

    def pods(self, selector: str = "") -> list[dict[str, Any]]:
        return self.cluster.pods(self.name, selector)

    def phases(self, selector: str = "") -> dict[str, str]:
        return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in self.pods(selector)}

    def wait(self, what: str, met: Callable[[], bool], seconds: float = 60) -> None:
        try:
            self.cluster.wait(what, met, seconds)
        except Exception as error:
            raise AssertionError(f"{error}\n{self.story()}") from error

    def story(self) -> str:
        """What one would look at by hand: the pods and the last events."""
        events = self.kubectl("get", "events", "--sort-by=.metadata.creationTimestamp", check=False).splitlines()[-25:]
        return "\n".join([self.kubectl("get", "pods", "-o", "wide", check=False), *events])

    def left(self) -> list[str]:
        """The objects a job could have left: everything but what every namespace has."""
        names = {
            f"{kind}/{item['metadata']['name']}"
            for group, kinds in KINDS.items()
            for kind in kinds
            for item in self.cluster.get(f"{group}/namespaces/{self.name}/{kind}")["items"]
        }
        usual = {"configmaps/kube-root-ca.crt", "serviceaccounts/default", f"persistentvolumeclaims/{CLAIM}"}
        return sorted(names - usual)

    def remove(self) -> None:
        """Without waiting for the end: Kubernetes finishes while the next test runs."""
        # Pods go before Jobs when a namespace goes, and a Job that may make no new pod does not let its old ones go.
        self.cluster.delete(f"apis/batch/v1/namespaces/{self.name}/jobs", propagationPolicy="Background")
        self.cluster.delete(f"api/v1/namespaces/{self.name}")
        self.cluster.delete("api/v1/persistentvolumes", labelSelector=f"umiak.test/namespace={self.name}")
        shutil.rmtree(self.volume, ignore_errors=True)

    def job(self, name: str, command: list[str], image: str, workers: int = 1, **pod: Any) -> dict[str, Any]:
        """An Indexed Job with a headless service's name, as `umiak job` makes them, but of any command."""
        container = {"name": "main", "image": image, "imagePullPolicy": "IfNotPresent", "command": command}
        container |= pod.pop("container", {})
        spec = {"restartPolicy": "Never", "subdomain": name, "containers": [container], **pod}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {
                "completions": workers,
                "parallelism": workers,
                "completionMode": "Indexed",
                "backoffLimit": 0,
                "template": {"metadata": {"labels": {"job": name}}, "spec": spec},
            },
        }
