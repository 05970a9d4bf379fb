"""What Kubernetes must know of the cluster's storage: the volume `efsvol`, and the account whose pods read the bucket."""

from __future__ import annotations

from typing import Any

from umiak.cluster.template.kubernetes import DATA_ACCOUNT, DATA_NAMESPACE
from umiak.spec.yamlfile import to_yaml

VOLUME = "efsvol"
# Filled in from the stack's output of the same name, by us or by `envsubst`.
HANDLE = "${VolumeHandle}"
DRIVER = "efs.csi.aws.com"


def build(handle: str = HANDLE, old_volume: bool = False) -> list[dict[str, Any]]:
    """PersistentVolume, PersistentVolumeClaim and ServiceAccount; the sizes are the tutorial's, EFS itself has none."""
    # The file system lets in only who comes with TLS and IAM; one of umiak 0.1.0 knows no IAM.
    options = {} if old_volume else {"mountOptions": ["tls", "iam"]}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": VOLUME},
            "spec": {
                "capacity": {"storage": "100Gi"},
                "volumeMode": "Filesystem",
                "accessModes": ["ReadWriteMany"],
                "persistentVolumeReclaimPolicy": "Retain",
                # Empty, so that no default class makes a disk of its own for the claim.
                "storageClassName": "",
                "claimRef": {"namespace": DATA_NAMESPACE, "name": VOLUME},
                "csi": {"driver": DRIVER, "volumeHandle": handle},
                **options,
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": VOLUME, "namespace": DATA_NAMESPACE},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "",
                "volumeName": VOLUME,
                "resources": {"requests": {"storage": "50Gi"}},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": DATA_ACCOUNT, "namespace": DATA_NAMESPACE},
        },
    ]


def text(handle: str = HANDLE) -> str:
    return "---\n".join(to_yaml(manifest) for manifest in build(handle))
