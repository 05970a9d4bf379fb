"""What must stand beside the tutorials' own YAML of 2016 and 2017 on a cluster of today, and the images it names.

Their pods ask the API server for each other with the token of the namespace's default service account. Since Kubernetes
has roles, that account may not list pods unless somebody says so.
"""

from __future__ import annotations

from typing import Any

from umiak.spec.yamlfile import to_yaml

NAME = "umiak-tutorial-pods"
# The names the tutorials' YAML gives, and what builds the image that stands in for each.
IMAGES = {
    "paddlepaddle/paddle-tutorial:k8s_data": "docker/tutorial/data.Dockerfile",
    "paddlepaddle/paddle-tutorial:k8s_train": "docker/tutorial/train.Dockerfile",
    "drinkcode/paddle:k8s-job": "docker/tutorial/train-2016.Dockerfile",
}


def manifests(namespace: str) -> list[dict[str, Any]]:
    meta = {"name": NAME, "namespace": namespace}
    return [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": meta,
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}],
        },
    ]


def text(namespace: str) -> str:
    return "---\n".join(to_yaml(each) for each in manifests(namespace))


def images() -> str:
    """The three names, each with its Dockerfile."""
    width = max(len(name) for name in IMAGES)
    return "\n".join(f"{name:<{width}}  {file}" for name, file in IMAGES.items())
