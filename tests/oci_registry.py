"""An image registry for tests, in memory: the OCI distribution protocol with uploads in chunks, logins, and faults on demand.

The tests in tests/kube use Debian's own; this one misbehaves when told to, and counts what travels.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import tarfile
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

_PATH = re.compile(r"/v2/(?P<name>[a-z0-9._/-]+?)/(?P<kind>manifests|blobs/uploads|blobs)/(?P<rest>.*)")


@dataclass
class State:
    blobs: dict[tuple[str, str], bytes] = field(default_factory=dict)
    manifests: dict[tuple[str, str], tuple[str, bytes]] = field(default_factory=dict)
    uploads: dict[str, bytes] = field(default_factory=dict)
    auth: Literal["", "basic", "bearer"] = ""
    login: str = "captain:secret"
    immutable: bool = False
    # Faults, each spent when it has struck: how many chunks are cut in the middle, answered 503, or lost with their upload.
    cut: int = 0
    busy: int = 0
    forget: int = 0
    # How many downloads break off half-way.
    torn: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    arrived: int = 0

    def put(self, name: str, content: bytes) -> str:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.blobs[name, digest] = content
        return digest


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        self._do()

    do_HEAD = do_POST = do_PATCH = do_PUT = do_GET

    def _do(self) -> None:
        state, url = self.server.state, urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        if self.command == "PATCH" and state.cut:
            state.cut -= 1
            place = url.path.rpartition("/")[2]
            state.uploads[place] += self.rfile.read(length // 2)
            self.close_connection = True
            self.connection.close()
            return
        body = self.rfile.read(length)
        if url.path == "/token":
            good = self.headers.get("Authorization") == f"Basic {base64.b64encode(state.login.encode()).decode()}"
            self._answer(200 if good else 401, json.dumps({"token": "t0"} if good else {}).encode())
            return
        if not self._known():
            port = self.server.server_port
            bearer = f'Bearer realm="http://127.0.0.1:{port}/token",service="test"'
            self._answer(401, b"", **{"WWW-Authenticate": 'Basic realm="test"' if state.auth == "basic" else bearer})
            return
        found = _PATH.fullmatch(url.path)
        if not found:
            self._answer(404)
            return
        state.seen[f"{self.command} {found['kind']}"] += 1
        act = {"manifests": self._manifest, "blobs": self._blob, "blobs/uploads": self._upload}[found["kind"]]
        act(found["name"], found["rest"], body, {key: value[0] for key, value in parse_qs(url.query).items()})

    def _known(self) -> bool:
        state, given = self.server.state, self.headers.get("Authorization", "")
        basic = f"Basic {base64.b64encode(state.login.encode()).decode()}"
        return not state.auth or given == {"basic": basic, "bearer": "Bearer t0"}[state.auth]

    def _manifest(self, name: str, version: str, body: bytes, query: dict[str, str]) -> None:
        state = self.server.state
        if self.command == "PUT":
            there = state.manifests.get((name, version))
            if state.immutable and there and there[1] != body:
                error = {"errors": [{"code": "ImageTagAlreadyExistsException", "message": "immutable"}]}
                self._answer(400, json.dumps(error).encode())
                return
            described = json.loads(body)
            parts = [described["config"], *described["layers"]]
            missing = [part["digest"] for part in parts if (name, part["digest"]) not in state.blobs]
            if missing:
                self._answer(400, json.dumps({"errors": [{"code": "MANIFEST_BLOB_UNKNOWN"}]}).encode())
                return
            for key in (version, f"sha256:{hashlib.sha256(body).hexdigest()}"):
                state.manifests[name, key] = (self.headers["Content-Type"], body)
            self._answer(201)
            return
        kind, content = state.manifests.get((name, version), ("", b""))
        self._answer(200 if content else 404, content, **{"Content-Type": kind})

    def _blob(self, name: str, digest: str, body: bytes, query: dict[str, str]) -> None:
        state = self.server.state
        content = state.blobs.get((name, digest))
        if content is None:
            self._answer(404)
            return
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        if self.command == "GET" and state.torn:
            state.torn -= 1
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            self.wfile.write(content[start : start + (len(content) - start) // 2])
            self.close_connection = True
            return
        self._answer(206 if start else 200, content[start:])

    def _upload(self, name: str, place: str, body: bytes, query: dict[str, str]) -> None:
        state = self.server.state
        if self.command == "POST":
            source = state.blobs.get((query.get("from", ""), query.get("mount", "")))
            if source is not None:
                state.put(name, source)
                self._answer(201)
                return
            place = uuid.uuid4().hex
            state.uploads[place] = b""
            self._answer(202, Location=self._place(name, place))
            return
        if place not in state.uploads:
            self._answer(404)
        elif self.command == "GET":
            self._answer(204, Range=f"0-{max(len(state.uploads[place]) - 1, 0)}", Location=self._place(name, place))
        elif self.command == "PATCH" and state.busy:
            state.busy -= 1
            self._answer(503)
        elif self.command == "PATCH" and state.forget:
            state.forget -= 1
            del state.uploads[place]
            self._answer(404)
        elif self.command == "PATCH":
            if (
                self.headers["Content-Range"]
                != f"{len(state.uploads[place])}-{len(state.uploads[place]) + len(body) - 1}"
            ):
                self._answer(416)
                return
            state.uploads[place] += body
            state.arrived += len(body)
            self._answer(202, Location=self._place(name, place))
        else:
            content = state.uploads.pop(place) + body
            good = f"sha256:{hashlib.sha256(content).hexdigest()}" == query["digest"]
            if good:
                state.put(name, content)
            self._answer(201 if good else 400, b"" if good else b'{"errors": [{"code": "DIGEST_INVALID"}]}')

    def _place(self, name: str, place: str) -> str:
        return f"/v2/{name}/blobs/uploads/{place}"

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    state: State


@dataclass(frozen=True)
class Registry:
    host: str
    state: State


@contextmanager
def serving() -> Iterator[Registry]:
    server = _Server(("127.0.0.1", 0), _Handler)
    server.state = State()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield Registry(f"127.0.0.1:{server.server_port}", server.state)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def layer(files: dict[str, bytes], compress: bool = True) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz" if compress else "w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            tar.addfile(info, io.BytesIO(content))
    return raw.getvalue()


def publish(registry: Registry, name: str, files: dict[str, bytes], architectures: tuple[str, ...] = ("amd64",)) -> str:
    """An image of one layer for each architecture, behind an index; the digest of the index."""
    entries = []
    for architecture in architectures:
        packed = layer({**files, "etc/architecture": architecture.encode()})
        config = {
            "architecture": architecture,
            "os": "linux",
            "config": {"Env": ["PATH=/usr/local/bin:/bin", "LANG=C"]},
        }
        config["rootfs"] = {"type": "layers", "diff_ids": [f"sha256:{'0' * 64}"]}
        described = json.dumps(config).encode()
        kind = "application/vnd.docker.distribution.manifest.v2+json"
        manifest = _manifest(
            kind, registry.state.put(name, described), described, registry.state.put(name, packed), packed
        )
        digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
        registry.state.manifests[name, digest] = (kind, manifest)
        platform = {"architecture": architecture, "os": "linux"}
        entries.append({"mediaType": kind, "digest": digest, "size": len(manifest), "platform": platform})
    kind = "application/vnd.docker.distribution.manifest.list.v2+json"
    index = json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": entries}).encode()
    digest = f"sha256:{hashlib.sha256(index).hexdigest()}"
    registry.state.manifests[name, digest] = registry.state.manifests[name, "latest"] = (kind, index)
    return digest


def _manifest(kind: str, config: str, described: bytes, digest: str, packed: bytes) -> bytes:
    content: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": kind,
        "config": {
            "digest": config,
            "size": len(described),
            "mediaType": "application/vnd.docker.container.image.v1+json",
        },
        "layers": [
            {"digest": digest, "size": len(packed), "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip"}
        ],
    }
    return json.dumps(content).encode()
