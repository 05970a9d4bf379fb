"""As much of a Kubernetes API server as `umiak cluster` asks for: nodes, and objects that can be created, listed and deleted.

A stand-in, because a real cluster takes half a minute to start and most tests are about AWS; the tests of `make test-kube`
set the fake's endpoint to a real one. TLS and EKS tokens are real.
"""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
import threading
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from werkzeug.serving import WSGIRequestHandler, make_server

if TYPE_CHECKING:
    from tests.fake_aws.server import FakeAws

# The one cluster it stands for; where it is a Service of type LoadBalancer, deleting it deletes that.
COLLECTIONS = (
    "/api/v1/nodes",
    "/api/v1/persistentvolumes",
    "/api/v1/services",
    "/api/v1/namespaces/default/persistentvolumeclaims",
    "/api/v1/namespaces/default/serviceaccounts",
    "/apis/batch/v1/namespaces/default/jobs",
    "/apis/networking.k8s.io/v1/ingresses",
)


# The name of a private API server, which only the VPC resolves.
PRIVATE = "paddle.gr7.us-west-2.eks.fake"


class ApiServer:
    def __init__(self, fake: FakeAws) -> None:
        self.fake = fake
        self.arrange()
        certificate, key = _certificate()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "both.pem"
            path.write_bytes(certificate + key)
            context.load_cert_chain(path)
        self._server = make_server(
            "127.0.0.1", 0, self._answer, threaded=True, request_handler=_Quiet, ssl_context=context
        )
        self.endpoint = f"https://127.0.0.1:{self._server.server_port}"
        self.certificate = base64.b64encode(certificate).decode()
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def arrange(self) -> None:
        # path → object
        self.objects: dict[str, dict[str, Any]] = {}
        # Nodes that joined but are not ready.
        self.unready = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        token = environ.get("HTTP_AUTHORIZATION", "").removeprefix("Bearer ")
        with self.fake.lock:
            self.fake.clock.run()
            review = self.fake.tokens.review({"spec": {"token": token}})["status"]
            if not review["authenticated"]:
                code, answer = 401, {"kind": "Status", "message": "Unauthorized", "reason": "Unauthorized"}
            else:
                code, answer = self._handled(environ["REQUEST_METHOD"], environ["PATH_INFO"], body)
        raw = json.dumps(answer).encode()
        start(f"{code} fake", [("Content-Type", "application/json"), ("Content-Length", str(len(raw)))])
        return [raw]

    def _handled(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        if method == "GET" and path in COLLECTIONS:
            return 200, {"kind": "List", "items": self._nodes() if path.endswith("/nodes") else self._below(path)}
        if method == "GET" and path in self.objects:
            return 200, self.objects[path]
        if method == "POST" and path in COLLECTIONS:
            made = json.loads(body)
            where = f"{path}/{made['metadata']['name']}"
            if where in self.objects:
                return 409, {"kind": "Status", "message": f"{where} already exists", "reason": "AlreadyExists"}
            self.objects[where] = made
            return 201, made
        if method == "DELETE" and path in self.objects:
            return 200, self.objects.pop(path)
        if method in ("GET", "DELETE"):
            return 404, {"kind": "Status", "message": f"{path} not found", "reason": "NotFound"}
        self.fake.unmodelled.append(f"Kubernetes {method} {path}")
        return 500, {"kind": "Status", "message": "not modelled"}

    def _below(self, path: str) -> list[dict[str, Any]]:
        kind = path.rpartition("/")[2]
        return [item for where, item in self.objects.items() if where.split("/")[-2] == kind]

    def _nodes(self) -> list[dict[str, Any]]:
        names = [
            item["PrivateDnsName"]
            for cluster in self.fake.eks.clusters
            for item in self.fake.eks.instances(cluster, region=self.fake.eks.clusters[cluster]["region"])
        ]
        return [
            {
                "metadata": {"name": name},
                "status": {"conditions": [{"type": "Ready", "status": str(number >= self.unready)}]},
            }
            for number, name in enumerate(names)
        ]


def _certificate() -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fake API server")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName(PRIVATE)]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM), key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *_: Any, **__: Any) -> None:
        """The journal of the fake keeps what is worth knowing."""
