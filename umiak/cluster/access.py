"""How kubectl and `umiak job` get in: the kubeconfig, and the token that it has them ask us for."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from umiak import trusted
from umiak.cluster import stacks
from umiak.cluster.aws import Aws, AwsError
from umiak.errors import InputError
from umiak.files import atomic, check_target
from umiak.spec.cluster import ClusterSpec, is_arm
from umiak.spec.yamlfile import to_yaml

if TYPE_CHECKING:
    from umiak.cluster import kube
    from umiak.kube.api import Api

FILE = Path("kubeconfig")
# The local port that leads to a private API server while `umiak cluster connect` runs.
PORT = 16443
API = "client.authentication.k8s.io/v1"
# The name of the extension that `umiak job init` reads.
EXTENSION = "umiak.dev/cluster"
# EKS takes a token for 15 minutes; a minute less leaves time for the way.
LIFETIME = timedelta(minutes=14)


def endpoint(aws: Aws, cluster: str) -> tuple[str, str]:
    """(address of the API server, its CA in base64)."""
    try:
        found = aws.call("eks", "DescribeCluster", name=cluster)["cluster"]
    except AwsError as error:
        if error.code != "ResourceNotFoundException":
            raise
        raise InputError(f"there is no cluster {cluster} in {aws.region}; make it with `umiak cluster up`") from error
    if not found.get("endpoint"):
        raise InputError(
            f"the cluster {cluster} has no address yet (it is {found['status']}); wait for `umiak cluster up`"
        )
    return found["endpoint"], found["certificateAuthority"]["data"]


def kubeconfig(
    cluster: str, region: str, server: dict[str, str], profile: str | None, needs: dict[str, str]
) -> dict[str, Any]:
    """A kubeconfig whose user is a program, so that no password is written anywhere and no aws CLI is needed.

    Its context says, as an extension, what a job on this cluster needs besides: see `_needs`.
    """
    name = f"{cluster}.{region}"
    umiak = shutil.which("umiak")
    command = [umiak] if umiak else [sys.executable, "-m", "umiak.cli.main"]
    plugin: dict[str, Any] = {
        "apiVersion": API,
        "command": command[0],
        "args": [*command[1:], "cluster", "token", "--name", cluster, "--region", region],
        "interactiveMode": "Never",
        "installHint": "Install umiak with its extra: pip install 'umiak[cluster]'",
    }
    if profile:
        plugin["env"] = [{"name": "AWS_PROFILE", "value": profile}]
    for_jobs = {"name": EXTENSION, "extension": needs}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": server}],
        "users": [{"name": name, "user": {"exec": plugin}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "extensions": [for_jobs]}}],
        "current-context": name,
    }


def _needs(spec: ClusterSpec, image: str | None) -> dict[str, str]:
    """What `umiak job`, `data` and `image` use unasked."""
    # Loads the template's library, which a token can do without.
    from umiak.cluster.manifests import VOLUME
    from umiak.cluster.template.kubernetes import DATA_ACCOUNT

    platform = "linux/arm64" if is_arm(spec.nodes.types[0]) else "linux/amd64"
    needs = {"claim": VOLUME, "service_account": DATA_ACCOUNT, "platform": platform}
    # By these `umiak job` knows why nobody answers.
    needs |= {"api_cidrs": ",".join(spec.kubernetes.api_cidrs)} if spec.kubernetes.api_cidrs else {}
    needs |= {"connect": "yes"} if spec.kubernetes.bastion else {}
    return needs | ({"image": f"{image}:latest"} if image else {})


def server(address: str, certificate: str, port: int | None) -> dict[str, str]:
    """Where the API server is: at its address, or at a port here that leads to it under its own name."""
    if port is None:
        return {"server": address, "certificate-authority-data": certificate}
    name = urlsplit(address).hostname or ""
    return {
        "server": f"https://127.0.0.1:{port}",
        "tls-server-name": name,
        "certificate-authority-data": certificate,
    }


def write(aws: Aws, spec: ClusterSpec, path: Path, port: int = PORT) -> None:
    """For this user only, whole or not at all. A file of another cluster is not overwritten. `port` is of `connect`."""
    cluster = spec.name
    address, certificate = endpoint(aws, cluster)
    stack = stacks.find(aws, cluster)
    image = stack.outputs.get("ImageRepository") if stack and stack.ours else None
    profile = os.environ.get("AWS_PROFILE")
    place = server(address, certificate, port if spec.kubernetes.bastion else None)
    made = kubeconfig(cluster, aws.region, place, profile, _needs(spec, image))
    if path.exists() and f"current-context: {made['current-context']}" not in path.read_text(errors="replace"):
        raise InputError(
            f"{path} exists and does not belong to {cluster} in {aws.region}; move it away, or choose with --kubeconfig"
        )
    check_target(path)
    with atomic(path, mode=0o600) as file:
        file.write(to_yaml(made).encode())
    trusted.record(path)


def client_of(path: Path, connect: kube.Connect) -> Callable[[], Api | None]:
    """A client if there is a kubeconfig; destroying needs none. One that others wrote might run anything."""

    def client() -> Api | None:
        if not path.exists():
            return None
        if not trusted.is_recorded(path):
            raise InputError(
                f"{path} was not written by umiak cluster on this machine, or was changed since: write it again with "
                "`umiak cluster kubeconfig`, or move it away"
            )
        return connect(path)

    return client


def credential(aws: Aws, cluster: str, now: datetime) -> str:
    """What an exec plugin prints."""
    until = (now.astimezone(UTC) + LIFETIME).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"expirationTimestamp": until, "token": aws.token(cluster)}
    return json.dumps({"kind": "ExecCredential", "apiVersion": API, "spec": {}, "status": status})
