"""kubeconfig files: which cluster, and who we are there. Reads what kubectl reads; talks to nobody.

Several files merge as kubectl merges them: of two entries with one name the first counts. Credentials come as a token, a
file with one, a client certificate, a name and password, or from a program (an exec plugin, as EKS has it).
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from umiak import trusted
from umiak.errors import InputError, RetryError

DEFAULT = Path("~/.kube/config")
# What `umiak cluster up` leaves in the directory of its cluster file.
OURS, CLUSTER_FILE = Path("kubeconfig"), Path("cluster.yaml")
EXTENSION = "umiak.dev/cluster"
PLUGIN_SECONDS = 120
# A token that ends while the request is on its way is as good as none.
EARLY = timedelta(seconds=30)


@dataclass(frozen=True)
class Plugin:
    """A program that prints credentials, as kubeconfig calls it: user.exec."""

    command: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    version: str
    interactive: bool
    hint: str
    cluster: Mapping[str, Any] | None


@dataclass(frozen=True)
class Credentials:
    """What a request carries. `expires` is None where nobody said."""

    token: str | None = field(default=None, repr=False)
    certificate: tuple[bytes, bytes] | None = field(default=None, repr=False)
    basic: tuple[str, str] | None = field(default=None, repr=False)
    expires: datetime | None = None

    def fresh(self, now: datetime) -> bool:
        return self.expires is None or now < self.expires - EARLY


@dataclass(frozen=True)
class Access:
    """One context of a kubeconfig: where the API server is and how to be let in."""

    context: str
    server: str
    namespace: str
    user: str
    ca: bytes | None = None
    insecure: bool = False
    server_name: str | None = None
    proxy: str | None = None
    given: Credentials = field(default_factory=Credentials)
    token_file: Path | None = None
    plugin: Plugin | None = None
    made: Mapping[str, str] = field(default_factory=dict)
    """What `umiak cluster up` wrote about its cluster, if it wrote this context: image, claim."""

    def credentials(self) -> Credentials:
        """As they are now: a token file is read, a plugin is run, and takes as long as it takes."""
        if self.plugin:
            return run(self.plugin)
        if self.token_file:
            return Credentials(token=_read(self.token_file).decode().strip(), certificate=self.given.certificate)
        return self.given


def load(kubeconfig: Path | None, context: str | None, environment: Mapping[str, str]) -> Access:
    """The wanted context, or the current one, of --kubeconfig, $KUBECONFIG, the cluster we made here or ~/.kube/config."""
    paths = candidates(kubeconfig, environment)
    found = [path for path in paths if path.is_file()]
    if not found or (kubeconfig and len(found) < len(paths)):
        raise InputError(
            f"no kubeconfig at {paths[0]}: name one with --kubeconfig FILE or KUBECONFIG, or let "
            "`umiak cluster kubeconfig` or your cluster's own tool write one"
        )
    merged = _Merged([_Entries(path) for path in found])
    name = context or merged.current
    if not name:
        known = ", ".join(merged.contexts) or "none"
        raise InputError(f"{found[0]} has no current-context: choose one with --context (there are: {known})")
    if name not in merged.contexts:
        known = ", ".join(merged.contexts) or "none"
        raise InputError(f"{found[0]} has no context {name!r}: choose one with --context (there are: {known})")
    return _access(merged, name)


def candidates(kubeconfig: Path | None, environment: Mapping[str, str]) -> list[Path]:
    """Where a kubeconfig is looked for."""
    if kubeconfig:
        return [kubeconfig.expanduser()]
    listed = [Path(part).expanduser() for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part]
    if not listed and OURS.is_file() and CLUSTER_FILE.is_file():
        if not trusted.is_recorded(OURS):
            raise InputError(
                f"{OURS} in this directory was not written by umiak cluster on this machine, or was changed since, and may run "
                f"any program: name it if you trust it (--kubeconfig {OURS}), or write it again with `umiak cluster kubeconfig`"
            )
        return [OURS]
    return listed or [DEFAULT.expanduser()]


class _Entries:
    """One file: its clusters, users and contexts by name, each with the directory its relative paths start from."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            content = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) or {}
            self.current = content.get("current-context") or ""
            self.tables = {
                key: {entry["name"]: dict(entry.get(key[:-1]) or {}, _from=path) for entry in content.get(key) or []}
                for key in ("clusters", "users", "contexts")
            }
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read the kubeconfig {path}: {error}") from None
        except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError):
            raise InputError(f"{path} is not a kubeconfig: write it again, or name another with --kubeconfig") from None


class _Merged:
    def __init__(self, files: list[_Entries]) -> None:
        self.current = next((file.current for file in files if file.current), "")
        tables: dict[str, dict[str, Any]] = {"clusters": {}, "users": {}, "contexts": {}}
        for file in reversed(files):
            for key, entries in file.tables.items():
                tables[key] |= entries
        self.clusters, self.users, self.contexts = tables["clusters"], tables["users"], tables["contexts"]


def _access(merged: _Merged, name: str) -> Access:
    context = merged.contexts[name]
    path = context["_from"]
    cluster, user = merged.clusters.get(context.get("cluster")), merged.users.get(context.get("user"))
    for kind, entry in (("cluster", cluster), ("user", user)):
        if entry is None and (kind == "cluster" or context.get("user")):
            raise InputError(f"{path}: context {name!r} names the {kind} {context.get(kind)!r}, which is not there")
    assert cluster is not None
    user = user or {"_from": path}
    if not cluster.get("server"):
        raise InputError(f"{path}: the cluster {context.get('cluster')!r} has no server; write its https:// address")
    certificate, key = _bytes(user, "client-certificate"), _bytes(user, "client-key")
    token_file = user.get("tokenFile")
    return Access(
        context=name,
        server=str(cluster["server"]).rstrip("/"),
        namespace=context.get("namespace") or "default",
        user=str(context.get("user") or ""),
        ca=_bytes(cluster, "certificate-authority"),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=cluster.get("tls-server-name"),
        proxy=cluster.get("proxy-url"),
        given=Credentials(
            token=user.get("token"),
            certificate=(certificate, key) if certificate and key else None,
            basic=(user["username"], user.get("password", "")) if user.get("username") else None,
        ),
        token_file=_beside(user, token_file) if token_file else None,
        plugin=_plugin(user, cluster) if user.get("exec") else None,
        made=_made(context),
    )


def _made(context: Mapping[str, Any]) -> dict[str, str]:
    for each in context.get("extensions") or ():
        if isinstance(each, dict) and each.get("name") == EXTENSION and isinstance(each.get("extension"), dict):
            return {str(key): str(value) for key, value in each["extension"].items()}
    return {}


def _bytes(entry: Mapping[str, Any], key: str) -> bytes | None:
    """The content of `key-data`, or of the file that `key` names."""
    if data := entry.get(f"{key}-data"):
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError, TypeError):
            raise InputError(f"{entry['_from']}: {key}-data is not base64; write the kubeconfig again") from None
    return _read(_beside(entry, entry[key])) if entry.get(key) else None


def _beside(entry: Mapping[str, Any], name: str) -> Path:
    return Path(entry["_from"]).resolve().parent / Path(name).expanduser()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}, which the kubeconfig names: {error.strerror}") from None


def _plugin(user: Mapping[str, Any], cluster: Mapping[str, Any]) -> Plugin:
    given = user["exec"]
    command = str(given.get("command") or "")
    if os.sep in command:
        command = str(_beside(user, command))
    described = {
        "server": cluster["server"],
        "certificate-authority-data": cluster.get("certificate-authority-data"),
        "insecure-skip-tls-verify": cluster.get("insecure-skip-tls-verify"),
        "tls-server-name": cluster.get("tls-server-name"),
        "proxy-url": cluster.get("proxy-url"),
    }
    return Plugin(
        command=command,
        arguments=tuple(str(word) for word in given.get("args") or ()),
        environment={str(pair["name"]): str(pair["value"]) for pair in given.get("env") or ()},
        version=str(given.get("apiVersion") or "client.authentication.k8s.io/v1"),
        interactive=given.get("interactiveMode") != "Never",
        hint=" ".join(str(given.get("installHint") or "").split()),
        cluster={key: value for key, value in described.items() if value} if given.get("provideClusterInfo") else None,
    )


def run(plugin: Plugin) -> Credentials:
    """Ask a plugin. What it says on stderr is shown at once to a person who can answer, else it becomes the error."""
    interactive = plugin.interactive and sys.stdin is not None and sys.stdin.isatty()
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.cluster:
        spec["cluster"] = plugin.cluster
    info = {"apiVersion": plugin.version, "kind": "ExecCredential", "spec": spec}
    called = " ".join((plugin.command, *plugin.arguments))
    try:
        done = subprocess.run(
            [plugin.command, *plugin.arguments],
            env={**os.environ, **plugin.environment, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if interactive else subprocess.PIPE,
            timeout=PLUGIN_SECONDS,
            check=False,
        )
    except (FileNotFoundError, PermissionError):
        hint = plugin.hint or "install it, or correct user.exec in the kubeconfig"
        raise InputError(
            f"the kubeconfig gets credentials from `{plugin.command}`, which is not there: {hint}"
        ) from None
    except subprocess.TimeoutExpired:
        raise RetryError(
            f"`{called}` gave no credentials within {PLUGIN_SECONDS} s: run it by hand to see why"
        ) from None
    if done.returncode:
        said = (done.stderr or b"").decode(errors="replace").strip().splitlines()
        because = f" ({said[-1].strip()})" if said else ""
        raise InputError(f"`{called}` gave no credentials{because}: sign in again, or run it by hand to see why")
    try:
        status = json.loads(done.stdout)["status"]
        pair = (status.get("clientCertificateData"), status.get("clientKeyData"))
        if not status.get("token") and not all(pair):
            raise KeyError("token")
        until = status.get("expirationTimestamp")
        return Credentials(
            token=status.get("token"),
            certificate=(pair[0].encode(), pair[1].encode()) if all(pair) else None,
            expires=datetime.fromisoformat(until).astimezone(UTC) if until else None,
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"`{called}` printed no credentials: it should print an ExecCredential with a token") from None
