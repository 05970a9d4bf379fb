"""From an empty directory to a trained model and back to nothing, as a user types it: AWS is the fake, Kubernetes is real.

The fake EKS names the test cluster's API server, which shows the tokens it does not know to the fake, as on EKS.
"""

from __future__ import annotations

import base64
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.fake_aws import FakeAws
from tests.kube import images
from tests.kube.cluster import Cluster
from tests.kube.control import WEBHOOK_PORT
from tests.processes import TINY, snapshot_bytes, umiak
from umiak.data import shards

IMAGE = "123456789012.dkr.ecr.us-west-2.amazonaws.com/paddle-images-000000000012:latest"
"""Where `umiak cluster up` says the image is to be pushed."""
SPEED = 600.0
"""How much faster than ours the fake's time goes."""

pytestmark = pytest.mark.usefixtures("default_namespace")


@contextmanager
def webhook(cluster: Cluster, fake: FakeAws) -> Iterator[None]:
    """Answers the API server's question whose token that is."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(fake.tokens.review(request)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer((cluster.place.gateway, WEBHOOK_PORT), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def aws(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAws]:
    """The fake's account, and what it makes in the namespace `default` removed again."""
    # Prices of the fake must not be kept for real ones.
    cluster.publish(IMAGE, images.ensure())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with FakeAws(SPEED).running() as fake, webhook(cluster, fake):
        fake.eks.endpoint = f"https://{cluster.place.control}:6443"
        fake.eks.certificate = base64.b64encode((cluster.home / "keys" / "ca.crt").read_bytes()).decode()
        for name, value in fake.environment(fake.admin).items():
            monkeypatch.setenv(name, value)
        for name in ("KUBECONFIG", "AWS_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        try:
            yield fake
        finally:
            for kind in ("jobs", "persistentvolumeclaims"):
                cluster.kubectl("delete", kind, "--all", "-n", "default", "--cascade=foreground", timeout=180)
            cluster.kubectl("delete", "pv", "efsvol", "--ignore-not-found")
            cluster.kubectl("delete", "serviceaccount", "-n", "default", "--all", check=False)
            for name in ("raw", "cut", "tiny"):
                shutil.rmtree(cluster.volume / name, ignore_errors=True)


def test_from_an_empty_directory_to_a_model_and_back_to_nothing(
    aws: FakeAws, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    umiak("cluster", "init", "--name", "paddle", "--region", "us-west-2", "--api-cidr", "203.0.113.7/32")
    said = umiak("cluster", "up", "--yes", timeout=300)
    assert "nodes ready: 3 of 3" in said
    assert json.loads(umiak("cluster", "status", "--json"))["stack"] == "CREATE_COMPLETE"

    shutil.copy(TINY, "config.py")
    umiak("job", "init", "--name", "tiny", "--workers", "3")
    assert IMAGE in Path("job.yaml").read_text()

    (cluster.volume / "raw").mkdir()
    (cluster.volume / "raw/train.txt").write_text("".join(f"sample {number}\n" for number in range(1000)))
    umiak("data", "submit", "raw", "cut", "--shards", "3", timeout=180)
    assert shards.verify(cluster.volume / "cut").samples == 1000

    text = Path("job.yaml").read_text()
    Path("job.yaml").write_text(text.replace("passes: 10", "passes: 3").replace('cpu: "1"', "cpu: 200m"))
    umiak("job", "submit", "--watch", timeout=300)
    umiak("output", "pull", "tiny", "model")
    umiak("train", "config.py", "--workers", "3", "--passes", "3", "--out", "local")
    assert snapshot_bytes(Path("model")) == snapshot_bytes(Path("local"))

    umiak("job", "delete", "tiny", "--output")
    said = umiak("cluster", "destroy", "--yes", timeout=300)
    assert not aws.stacks.stacks.get(("us-west-2", "paddle")) or "DELETE_COMPLETE" in said
    assert not aws.eks.clusters, "the audit exits non-zero if anything is left; this is the fake's own view"
    assert aws.unmodelled == []
