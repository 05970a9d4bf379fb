"""An image registry that reads: images lie in one OCI layout in the cache, and a small file says which name means which.

`python -m tests.kube.registry ADDRESS PORT NAMES LAYOUT`. Every registry host leads here (containerd is configured so), so
any image name works unmodified, and one that nobody published is "not found", as in the real world.
"""

from __future__ import annotations

import json
import re
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

PORT = 5000
_REQUEST = re.compile(r"/v2/(?P<name>[a-z0-9._/-]+)/(?P<kind>manifests|blobs)/(?P<reference>[A-Za-z0-9._:-]+)")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Registry(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], names: Path, layout: Path) -> None:
        super().__init__(address, _Handler)
        self.names, self.layout = names, layout

    def digest(self, host: str, name: str, reference: str) -> str | None:
        if _DIGEST.fullmatch(reference):
            return reference
        published: dict[str, str] = json.loads(self.names.read_text()) if self.names.exists() else {}
        return published.get(f"{host}/{name}:{reference}")

    def blob(self, digest: str) -> Path:
        return self.layout / "blobs" / "sha256" / digest.removeprefix("sha256:")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Registry

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        if not isinstance(code, int) or code >= HTTPStatus.BAD_REQUEST:
            super().log_request(code, size)

    def _answer(self, with_body: bool) -> None:
        url = urlsplit(self.path)
        if url.path in ("/v2", "/v2/"):
            self._send(HTTPStatus.OK, b"{}", "application/json", with_body)
            return
        request = _REQUEST.fullmatch(url.path)
        host = parse_qs(url.query).get("ns", ["docker.io"])[0]
        digest = self.server.digest(host, request["name"], request["reference"]) if request else None
        path = self.server.blob(digest) if digest and _DIGEST.fullmatch(digest) else None
        if request is None or digest is None or path is None or not path.is_file():
            body = json.dumps({"errors": [{"code": "MANIFEST_UNKNOWN", "message": f"{self.path} was never published"}]})
            self._send(HTTPStatus.NOT_FOUND, body.encode(), "application/json", with_body)
        elif request["kind"] == "manifests":
            body = path.read_bytes().decode()
            kind = json.loads(body).get("mediaType", "application/vnd.oci.image.manifest.v1+json")
            self._send(HTTPStatus.OK, body.encode(), kind, with_body, digest)
        else:
            self._send_file(path, digest, with_body)

    def _send(self, status: HTTPStatus, body: bytes, kind: str, with_body: bool, digest: str | None = None) -> None:
        self._head(status, len(body), kind, digest)
        if with_body:
            self.wfile.write(body)

    def _send_file(self, path: Path, digest: str, with_body: bool) -> None:
        size = path.stat().st_size
        self._head(HTTPStatus.OK, size, "application/octet-stream", digest)
        if with_body:
            with path.open("rb") as file:
                self.wfile.flush()
                self.connection.sendfile(file)

    def _head(self, status: HTTPStatus, size: int, kind: str, digest: str | None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size))
        if digest:
            self.send_header("Docker-Content-Digest", digest)
        self.end_headers()


def main() -> None:
    address, port, names, layout = sys.argv[1:]
    Registry((address, int(port)), Path(names), Path(layout)).serve_forever()


if __name__ == "__main__":
    main()
