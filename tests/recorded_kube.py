"""An API server of Kubernetes that knows only what it was given: real HTTP on loopback, objects kept as they came.

It stands in where a real cluster cannot be had or cannot be made to fail on demand: refusals, 1,000 pods, odd credentials. What
Kubernetes itself does with a job is tested on a real cluster in tests/kube.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Object = dict[str, Any]

KINDS = {
    "jobs": "Job",
    "pods": "Pod",
    "services": "Service",
    "secrets": "Secret",
    "configmaps": "ConfigMap",
    "events": "Event",
    "nodes": "Node",
    "namespaces": "Namespace",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "networkpolicies": "NetworkPolicy",
    "serviceaccounts": "ServiceAccount",
}
_WHERE = re.compile(
    r"/apis?/(?P<group>[\w.]+/)?v1(/namespaces/(?P<ns>[^/]+))?/(?P<kind>[a-z]+)(/(?P<name>[^/]+))?(/log)?$"
)


@dataclass
class RecordedKube:
    """`refuse` maps (verb, resource) to a status code, `deny` is the 403 of RBAC; `requests` remembers what was asked."""

    objects: dict[tuple[str, str, str], Object] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    denied: set[tuple[str, str]] = field(default_factory=set)
    refuse: dict[tuple[str, str], int] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    requests: list[tuple[str, str]] = field(default_factory=list)
    seen: list[dict[str, str]] = field(default_factory=list)
    busy: int = 0
    url: str = ""

    def put(self, item: Object) -> Object:
        """Record an object as if it had been created."""
        word = next(word for word, kind in KINDS.items() if kind == item["kind"])
        meta = item["metadata"]
        meta.setdefault("uid", str(uuid.uuid4()))
        meta.setdefault("creationTimestamp", "2026-11-16T09:00:00Z")
        self.objects[word, meta.get("namespace", ""), meta["name"]] = item
        return item

    def namespace(self, name: str = "default") -> None:
        self.put({"kind": "Namespace", "metadata": {"name": name}})

    def of(self, kind: str) -> list[Object]:
        word = next(word for word, each in KINDS.items() if each == kind)
        return [item for (of, _, _), item in self.objects.items() if of == word]

    def names(self) -> set[str]:
        """Everything there is but namespaces and nodes: `Job rec`, `Secret rec-credentials`, …"""
        there = ((KINDS[word], name) for word, _, name in self.objects)
        return {f"{kind} {name}" for kind, name in there if kind not in ("Namespace", "Node", "Event")}

    def collect(self) -> None:
        """What the garbage collector does: nothing outlives its owner."""
        uids = {item["metadata"]["uid"] for item in self.objects.values()}
        for key, item in list(self.objects.items()):
            owners = [owner["uid"] for owner in item["metadata"].get("ownerReferences") or []]
            if owners and not set(owners) & uids:
                del self.objects[key]

    def kubeconfig(self, path: Path, namespace: str | None = None, **user: Any) -> Path:
        content = {
            "current-context": "recorded",
            "contexts": [{"name": "recorded", "context": {"cluster": "c", "user": "u", "namespace": namespace}}],
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": user}],
        }
        path.write_text(json.dumps(content))
        return path


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kube: RecordedKube

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, code: int, body: Any, headers: dict[str, str] | None = None) -> None:
        raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
        self.send_header("Content-Length", str(len(raw)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

    def _refuse(self, code: int, reason: str, message: str) -> None:
        self._answer(code, {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message})

    def _serve(self) -> None:
        kube, parts = self.kube, urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        kube.requests.append((self.command, unquote(self.path)))
        kube.seen.append({name.lower(): value for name, value in self.headers.items()})
        if kube.busy:
            kube.busy -= 1
            self._answer(429, {"reason": "TooManyRequests", "message": "later"}, {"Retry-After": "0"})
            return
        if kube.tokens and self.headers.get("Authorization", "").removeprefix("Bearer ") not in kube.tokens:
            self._refuse(401, "Unauthorized", "Unauthorized")
            return
        where = _WHERE.match(parts.path)
        if not where:
            self._refuse(404, "NotFound", "the server could not find the requested resource")
            return
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        word, space, name = where["kind"], where["ns"] or "", where["name"] or ""
        if word == "namespaces":
            space = ""
        verb = {"GET": "get" if name else "list", "POST": "create", "PATCH": "patch", "DELETE": "delete"}[self.command]
        if (verb, word) in kube.denied:
            group = (where["group"] or "").rstrip("/")
            inside = f' in the namespace "{space}"' if space else " at the cluster scope"
            named = f'User "jane" cannot {verb} resource "{word}" in API group "{group}"{inside}'
            self._refuse(403, "Forbidden", f"{word} is forbidden: {named}")
        elif (verb, word) in kube.refuse:
            self._refuse(kube.refuse[verb, word], "InternalError", "recorded refusal")
        elif parts.path.endswith("/log"):
            self._log(name, query)
        else:
            getattr(self, f"_{verb}")(word, space, name, query, body)

    do_GET = do_POST = do_PATCH = do_DELETE = _serve

    def _log(self, name: str, query: dict[str, str]) -> None:
        if name not in self.kube.logs:
            self._refuse(400, "BadRequest", f'container "worker" in pod "{name}" is waiting to start')
            return
        lines = self.kube.logs[name].splitlines()
        if "tailLines" in query:
            lines = lines[-int(query["tailLines"]) :]
        if query.get("timestamps"):
            lines = [f"2026-11-16T09:00:{place:02d}.000000000Z {line}" for place, line in enumerate(lines)]
            since = query.get("sinceTime", "")
            lines = [line for line in lines if line[:19] >= since[:19]]
        self._answer(200, "".join(f"{line}\n" for line in lines))

    def _get(self, word: str, space: str, name: str, query: dict[str, str], body: Object) -> None:
        item = self.kube.objects.get((word, space, name))
        if item is None:
            self._refuse(404, "NotFound", f'{word} "{name}" not found')
        else:
            self._answer(200, item)

    def _list(self, word: str, space: str, name: str, query: dict[str, str], body: Object) -> None:
        wanted = [part.partition("=") for part in query.get("labelSelector", "").split(",") if part]
        found = [
            item
            for (of, at, _), item in self.kube.objects.items()
            if of == word
            and (not space or at == space)
            and all(
                key in (labels := item["metadata"].get("labels", {})) and (not equals or labels[key] == value)
                for key, equals, value in wanted
            )
        ]
        start = int(query.get("continue") or 0)
        end = start + int(query.get("limit") or len(found) or 1)
        meta = {"continue": str(end)} if end < len(found) else {}
        self._answer(200, {"kind": f"{KINDS[word]}List", "metadata": meta, "items": found[start:end]})

    def _create(self, word: str, space: str, name: str, query: dict[str, str], body: Object) -> None:
        kube, name = self.kube, body["metadata"]["name"]
        if ("namespaces", "", space) not in kube.objects:
            self._refuse(404, "NotFound", f'namespaces "{space}" not found')
        elif (word, space, name) in kube.objects:
            self._refuse(409, "AlreadyExists", f'{word} "{name}" already exists')
        else:
            meta = {**body["metadata"], "namespace": space, "uid": str(uuid.uuid4())}
            made = {**body, "kind": KINDS[word], "metadata": meta}
            if query.get("dryRun") != "All":
                kube.put(made)
            self._answer(201, made)

    def _patch(self, word: str, space: str, name: str, query: dict[str, str], body: Object) -> None:
        item = self.kube.objects.get((word, space, name))
        if item is None:
            self._refuse(404, "NotFound", f'{word} "{name}" not found')
            return
        assert self.headers["Content-Type"] == "application/merge-patch+json"
        _merge(item, body)
        self._answer(200, item)

    def _delete(self, word: str, space: str, name: str, query: dict[str, str], body: Object) -> None:
        item = self.kube.objects.get((word, space, name))
        if item is None:
            self._refuse(404, "NotFound", f'{word} "{name}" not found')
            return
        if (uid := body.get("preconditions", {}).get("uid")) and uid != item["metadata"]["uid"]:
            self._refuse(409, "Conflict", "the UID in the precondition does not match")
            return
        del self.kube.objects[word, space, name]
        self.kube.collect()
        self._answer(200, {"kind": "Status", "status": "Success"})


def _merge(item: Object, patch: Object) -> None:
    for key, value in patch.items():
        if value is None:
            item.pop(key, None)
        elif isinstance(value, dict):
            _merge(item.setdefault(key, {}), value)
        else:
            item[key] = value


@contextmanager
def recorded(context: ssl.SSLContext | None = None) -> Iterator[RecordedKube]:
    kube = RecordedKube()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"kube": kube}))
    server.daemon_threads = True
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    kube.url = f"{'https' if context else 'http'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield kube
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
