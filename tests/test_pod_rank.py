"""The rank of a pod that was not started as an Indexed Job: by address, among the running pods of its own Job object."""

from __future__ import annotations

import json
import random
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from umiak.errors import InputError, RetryError
from umiak.paddle_v1.pods import rank
from umiak.paddle_v1.pods.rank import Place, Waiting, place


def pod(name: str, ip: str | None, phase: str = "Running", run: str = "uid-2", **metadata: Any) -> dict[str, Any]:
    """A pod as the API server tells of it, cut down to what matters."""
    labels = {"job-name": "paddle-cluster-job", "batch.kubernetes.io/controller-uid": run, "controller-uid": run}
    status = {"phase": phase, **({"podIP": ip, "hostIP": "10.77.0.11"} if ip else {})}
    return {"metadata": {"name": name, "labels": labels, **metadata}, "status": status}


def answer(*pods: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "PodList", "apiVersion": "v1", "items": list(pods)}


TWENTY = [pod(f"paddle-cluster-job-{i:05x}", f"10.78.{i % 3 + 1}.{i + 2}") for i in range(20)]


@pytest.mark.parametrize("seed", range(5))
def test_twenty_pods_agree_on_their_order_however_they_are_listed(seed: int) -> None:
    listed = random.Random(seed).sample(TWENTY, 20)
    places = [place(answer(*listed), item["metadata"]["name"], 20) for item in TWENTY]
    assert all(isinstance(found, Place) for found in places)
    assert sorted(found.rank for found in places if isinstance(found, Place)) == list(range(20))
    assert len({found.hosts for found in places if isinstance(found, Place)}) == 1


def test_addresses_are_sorted_as_numbers_not_as_text() -> None:
    pods = answer(pod("a", "10.0.0.10"), pod("b", "10.0.0.9"), pod("c", "10.0.0.100"))
    assert place(pods, "b", 3) == Place(0, ("10.0.0.9", "10.0.0.10", "10.0.0.100"), "uid-2")


def test_leftovers_of_an_earlier_run_are_ignored() -> None:
    old = [pod("old-1", "10.0.0.1", run="uid-1"), pod("old-2", None, "Failed", run="uid-1")]
    ended = [pod("done", "10.0.0.2", "Succeeded"), pod("leaving", "10.0.0.3", deletionTimestamp="2016-11-16T00:00:00Z")]
    now = [pod("a", "10.0.0.5"), pod("b", "10.0.0.4")]
    assert place(answer(*old, *ended, *now), "a", 2) == Place(1, ("10.0.0.4", "10.0.0.5"), "uid-2")


def test_it_waits_for_the_expected_number_not_for_those_that_happen_to_be_listed() -> None:
    """The original started with too few pods when it asked before all of them existed."""
    assert place(answer(pod("a", "10.0.0.5")), "a", 3) == Waiting("1 of 3 pods are running (no other pod exists)")


def test_it_says_who_is_missing_and_why() -> None:
    pending = pod("b", None, "Pending")
    pending["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: 3 Insufficient memory."}
    ]
    pulling = pod("c", None, "Pending")
    pulling["status"]["containerStatuses"] = [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]
    found = place(answer(pod("a", "10.0.0.5"), pending, pulling, pod("d", None)), "a", 4)
    assert found == Waiting(
        "1 of 4 pods are running (b is Pending: 0/3 nodes are available: 3 Insufficient memory., "
        "c is Pending: ImagePullBackOff, d runs but has no address yet)"
    )


def test_a_failed_peer_is_named() -> None:
    found = place(answer(pod("a", "10.0.0.5"), pod("b", "10.0.0.6", "Failed")), "a", 2)
    assert found == Waiting("1 of 2 pods are running (b is Failed)")


def test_a_pod_that_is_not_listed_waits() -> None:
    assert isinstance(place(answer(), "a", 1), Waiting)


def test_more_pods_than_trainers_is_an_error_that_names_the_setting() -> None:
    with pytest.raises(InputError, match="CONF_PADDLE_GRADIENT_NUM=1: make it the same"):
        place(answer(pod("a", "10.0.0.5"), pod("b", "10.0.0.6")), "a", 1)


def test_discover_asks_again_until_all_are_there_and_tells_each_reason_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank, "POLL_SECONDS", 0.0)
    first, both = answer(pod("a", "10.0.0.5")), answer(pod("a", "10.0.0.5"), pod("b", "10.0.0.6"))
    answers: Iterator[Any] = iter([first, first, RetryError("away"), both])

    def ask() -> dict[str, Any]:
        value = next(answers)
        if isinstance(value, RetryError):
            raise value
        return dict(value)

    said: list[str] = []
    assert rank.discover(ask, "b", 2, 60, said.append).rank == 1
    assert said == [
        "waiting: the API server does not list this pod, b, among those of its job",
        "waiting: away",
    ]


def test_discover_gives_up_and_says_who_never_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank, "POLL_SECONDS", 0.01)
    with pytest.raises(RetryError, match=r"gave up after 0 s: 1 of 2 pods are running"):
        rank.discover(lambda: answer(pod("a", "10.0.0.5")), "a", 2, 0.05, lambda text: None)


@contextmanager
def api_server(directory: Path, status: int = 200) -> Iterator[tuple[int, list[str]]]:
    """An API server that lists one pod."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers['Authorization']}")
            body = json.dumps(answer(pod("a", "10.0.0.5"))).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "cert.pem", directory / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.server_port, asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def certificate(directory: Path) -> Path:
    """A certificate for 127.0.0.1 that is its own authority."""
    directory.mkdir()
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(1)
    )
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = builder.add_extension(address, critical=False).sign(key, hashes.SHA256())
    (directory / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (directory / "key.pem").write_bytes(secret)
    return directory


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    directory = tmp_path_factory.mktemp("certificates")
    return certificate(directory / "one"), certificate(directory / "two")


def account(directory: Path, authority: Path) -> Path:
    (directory / "ca.crt").write_bytes((authority / "cert.pem").read_bytes())
    (directory / "token").write_text("secret\n")
    return directory


def test_the_api_server_is_asked_with_the_pods_token(tmp_path: Path, authorities: tuple[Path, Path]) -> None:
    with api_server(authorities[0]) as (port, asked):
        ask = rank.in_cluster(
            "127.0.0.1", str(port), "default", "paddle-cluster-job", account(tmp_path, authorities[0])
        )
        assert place(ask(), "a", 1) == Place(0, ("10.0.0.5",), "uid-2")
    assert asked == ["/api/v1/namespaces/default/pods?labelSelector=job-name%3Dpaddle-cluster-job Bearer secret"]


def test_an_api_server_with_a_certificate_of_somebody_else_never_sees_the_token(
    tmp_path: Path, authorities: tuple[Path, Path]
) -> None:
    with api_server(authorities[0]) as (port, asked):
        ask = rank.in_cluster("127.0.0.1", str(port), "default", "job", account(tmp_path, authorities[1]))
        with pytest.raises(RetryError, match="CERTIFICATE_VERIFY_FAILED"):
            ask()
    assert not asked


def test_a_forbidden_list_names_the_missing_role(tmp_path: Path, authorities: tuple[Path, Path]) -> None:
    with api_server(authorities[0], 403) as (port, _):
        ask = rank.in_cluster("127.0.0.1", str(port), "default", "job", account(tmp_path, authorities[0]))
        with pytest.raises(InputError, match=r"a Role and a RoleBinding are missing; umiak job legacy -n default"):
            rank.discover(ask, "a", 1, 60, lambda text: None)


def test_a_pod_in_another_namespace_than_it_was_told_says_so(tmp_path: Path, authorities: tuple[Path, Path]) -> None:
    (account(tmp_path, authorities[0]) / "namespace").write_text("paddle\n")
    with pytest.raises(InputError, match=r"JOB_NAMESPACE is 'default', but this pod and its peers are in .* 'paddle'"):
        rank.in_cluster("127.0.0.1", "1", "default", "job", tmp_path)


def test_a_pod_without_a_token_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no service account token"):
        rank.in_cluster("127.0.0.1", "1", "default", "job", tmp_path)
