"""What a maintainer must see of a cluster that does not work, as one text without secrets: versions, the plan, AWS, Kubernetes.

A part that cannot be had says why; the others are there all the same. Account numbers, addresses and keys are masked.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import date
from importlib import metadata
from typing import TYPE_CHECKING, Any

from umiak import __version__
from umiak.cluster import checks, stacks, status
from umiak.cluster.aws import Aws
from umiak.cluster.prices import PriceBook
from umiak.errors import UmiakError
from umiak.spec import yamlfile
from umiak.spec.cluster import ClusterSpec

if TYPE_CHECKING:
    from umiak.kube.api import Api

EVENTS = 60
_PACKAGES = ("boto3", "botocore", "troposphere", "urllib3", "torch")
# In this order: an ARN holds an account, and an address may look like a version.
_MASKS = (
    (re.compile(r"\b(A[KS]IA|AROA|AIDA)[A-Z0-9]{12,}\b"), "<key id>"),
    (re.compile(r"\bk8s-aws-v1\.[\w-]+|\beyJ[\w-]+\.[\w-]+\.[\w-]+"), "<token>"),
    (re.compile(r"(?<![\d-])\d{12}(?![\d-])"), "<account>"),
    (
        re.compile(r"\b(?!10\.|127\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.)\d{1,3}(?:\.\d{1,3}){3}\b"),
        "<public address>",
    ),
    (re.compile(r"\b[0-9A-F]{32}(?=\.\w+\.[a-z0-9-]+\.eks\.amazonaws)"), "<cluster id>"),
    (re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+"), "<mail address>"),
)


def write(aws: Aws, spec: ClusterSpec, book: PriceBook, connect: Callable[[], Api | None], today: date) -> str:
    """The whole report."""
    parts: tuple[tuple[str, Callable[[], Iterator[str]]], ...] = (
        ("versions", _versions),
        ("cluster.yaml", lambda: iter([yamlfile.to_yaml(json.loads(json.dumps(asdict(spec))))])),
        ("checks", lambda: (f"{each.level}: {each.check}: {each.text}" for each in checks.run(spec, aws, today))),
        ("status", lambda: iter([json.dumps(status.look(aws, spec, book).to_dict(), indent=1)])),
        ("last events of the stack", lambda: _events(aws, spec)),
        ("nodes", lambda: _nodes(connect)),
        ("pods that are not ready", lambda: _pods(connect)),
        ("warnings of Kubernetes", lambda: _warnings(connect)),
    )
    lines = [
        "umiak cluster report. Accounts, keys, tokens and public addresses are masked; read it before you send it."
    ]
    for title, gather in parts:
        lines += ["", f"== {title}"]
        try:
            lines += list(gather()) or ["nothing"]
        except UmiakError as error:
            lines.append(f"not available: {error}")
    return masked("\n".join(lines) + "\n")


def masked(text: str) -> str:
    for pattern, instead in _MASKS:
        text = pattern.sub(instead, text)
    return text


def _versions() -> Iterator[str]:
    yield f"umiak {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    for name in _PACKAGES:
        try:
            yield f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            yield f"{name} is not installed"


def _events(aws: Aws, spec: ClusterSpec) -> Iterator[str]:
    stack = stacks.find(aws, spec.name)
    for event in stacks.events(aws, stack.id, None)[-EVENTS:] if stack else ():
        yield f"{event.time:%H:%M:%S} {event.title} {event.kind} {event.status} {event.reason}".rstrip()


def _items(connect: Callable[[], Api | None], where: str) -> list[dict[str, Any]]:
    api = connect()
    if api is None:
        raise UmiakError("there is no kubeconfig here; `umiak cluster kubeconfig` writes one")
    return api.items(where)


def _nodes(connect: Callable[[], Api | None]) -> Iterator[str]:
    for node in _items(connect, "/api/v1/nodes"):
        true = [each["type"] for each in node["status"].get("conditions", []) if each["status"] == "True"]
        info = node["status"].get("nodeInfo", {})
        yield f"{node['metadata']['name']}: {', '.join(true) or 'no condition holds'}; {info.get('kubeletVersion', '')}".rstrip()


def _pods(connect: Callable[[], Api | None]) -> Iterator[str]:
    for pod in _items(connect, "/api/v1/pods"):
        found = pod.get("status", {})
        ready = any(each["type"] == "Ready" and each["status"] == "True" for each in found.get("conditions", []))
        if ready or found.get("phase") == "Succeeded":
            continue
        waiting = [
            each["state"]["waiting"] for each in found.get("containerStatuses", []) if "waiting" in each["state"]
        ]
        why = "; ".join(f"{each.get('reason', '')} {each.get('message', '')}".strip() for each in waiting)
        yield f"{pod['metadata']['namespace']}/{pod['metadata']['name']}: {found.get('phase')} {why}".rstrip()


def _warnings(connect: Callable[[], Api | None]) -> Iterator[str]:
    found = [each for each in _items(connect, "/api/v1/events") if each.get("type") == "Warning"]
    for event in found[-EVENTS:]:
        about = event.get("involvedObject", {})
        yield f"{about.get('kind')} {about.get('name')}: {event.get('reason')}: {event.get('message', '')}"
