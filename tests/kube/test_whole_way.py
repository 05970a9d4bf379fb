"""From an empty directory to a trained model and back to nothing, as a user types it: AWS is the fake, Kubernetes is real.

The fake EKS names the test cluster's API server, which shows the tokens it does not know to the fake, as on EKS.
"""

from __future__ import annotations

import base64
import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.fake_aws import FakeAws
from tests.kube import docker_registry
from tests.kube.cluster import Cluster
from tests.kube.control import WEBHOOK_PORT
from tests.kube.docker_registry import DockerRegistry
from tests.kube.places import CLONE, NODES, cache
from tests.links import Link
from tests.processes import TINY, kill_tree, snapshot_bytes, umiak
from umiak.data import shards
from umiak.image import making

ECR = "123456789012.dkr.ecr.us-west-2.amazonaws.com"
"""The host of the fake's image repositories."""
SPEED = 600.0
"""How much faster than ours the fake's time goes."""
DOCS = CLONE / "docs" / "cluster.md"
SECONDS = 900.0
"""The first push makes all layers, and nodes unpack 5 GB of them."""

pytestmark = [pytest.mark.usefixtures("default_namespace"), pytest.mark.timeout(1200)]


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
def registry(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerRegistry]:
    """A real registry in the place of ECR and Docker Hub."""
    with docker_registry.serving(cluster, tmp_path / "registry", (ECR, docker_registry.HUB)) as found:
        found.put_base(making.default_base().removeprefix("docker.io/"))
        monkeypatch.setenv("SSL_CERT_FILE", str(found.bundle))
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        yield found


@pytest.fixture
def aws(
    cluster: Cluster, registry: DockerRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeAws]:
    """The fake's account, and what it makes in the namespace `default` removed again."""
    # Prices of the fake must not be kept for real ones; layers of the image may be kept for the next run.
    (tmp_path / "cache" / "umiak").mkdir(parents=True)
    kept = cache() / "pushed"
    kept.mkdir(parents=True, exist_ok=True)
    (tmp_path / "cache" / "umiak" / "image").symlink_to(kept)
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
            for name in ("reviews", "here"):
                shutil.rmtree(cluster.volume / name, ignore_errors=True)


def documented() -> list[str]:
    """The commands of the whole way as docs/cluster.md has them."""
    (block,) = re.findall(r"## The whole way\n```sh\n(.*?)```", DOCS.read_text(), re.DOTALL)
    return [line.partition("#")[0].strip() for line in block.splitlines()]


def typed(words: list[str], answers: dict[str, str]) -> str:
    """Run a command on a terminal, answering what it asks; all that was on the screen."""
    screen, terminal = pty.openpty()
    process = subprocess.Popen(words, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True)
    os.close(terminal)
    seen, deadline = "", time.monotonic() + SECONDS
    try:
        while time.monotonic() < deadline:
            if select.select([screen], [], [], 1.0)[0]:
                try:
                    seen += os.read(screen, 65536).decode(errors="replace")
                except OSError:
                    # Nobody has the terminal any more.
                    break
                for question in [each for each in answers if each in seen]:
                    os.write(screen, f"{answers.pop(question)}\n".encode())
        assert process.wait(10) == 0, seen
        return seen
    finally:
        kill_tree(process.pid)
        process.wait()
        os.close(screen)


def test_from_an_empty_directory_to_a_model_and_back_to_nothing(
    aws: FakeAws, registry: DockerRegistry, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Word for word as documented, but for: torch as locked (no other build is within reach), and where a pod finds the fake."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    init, check, up, push, split, train, pull, destroy = documented()

    def user(command: str, **answers: str) -> str:
        return typed(registry.seen_by(command), {answer.replace("_", " "): text for answer, text in answers.items()})

    user(init)
    assert "0 errors" in user(check)
    # The image is pushed by the next command, not by the offer of this one.
    said = user(up, Create_paddle_for="y", Build_and_push_it_now="n")
    assert "nodes ready: 3 of 3" in said and "umiak image push" in said
    status = json.loads(user("umiak cluster status --json"))
    image, bucket = f"{status['images']}:latest", status["bucket"]
    said = user(f"{push} --torch lock")
    assert image.startswith(f"{ECR}/paddle-images-") and f"pushed {image} as sha256:" in said

    samples = "".join(f"sample {number}\n" for number in range(1000))
    aws.client("s3").put_object(Bucket=bucket, Key="reviews/train.txt", Body=samples.encode())
    with closing(Link(int(aws.endpoint.rpartition(":")[2]), cluster.place.gateway)) as link:
        person = {**aws.admin.environment, "AWS_ENDPOINT_URL": f"http://{cluster.place.gateway}:{link.port}"}
        more = " ".join(f"--env {name}={value}" for name, value in {**person, "AWS_REGION": "us-west-2"}.items())
        user(f"{split.replace('BUCKET', bucket)} {more}")
    assert shards.verify(cluster.volume / "reviews").samples == 1000

    shutil.copy(TINY, "config.py")
    write, submit = train.split(" && ")
    user(write)
    text = Path("job.yaml").read_text()
    assert image in text
    # One node has unpacked the image's 5 GB for the data; the others need not.
    (node,) = [member for member in NODES if image in cluster.ctr(member, "images", "ls", "-q").split()]
    text = text.replace("pod: {}", f"pod: {{nodeSelector: {{kubernetes.io/hostname: {node}}}}}")
    Path("job.yaml").write_text(text.replace("passes: 10", "passes: 3").replace('cpu: "1"', "cpu: 200m"))
    user(submit)
    user(pull.replace("JOB", "here"))
    umiak("train", "config.py", "--workers", "3", "--passes", "3", "--out", "local")
    assert snapshot_bytes(Path("model")) == snapshot_bytes(Path("local"))

    umiak("job", "delete", "here", "--output")
    said = user(destroy, Type_the_cluster="paddle")
    assert "nothing else of paddle is left" in said
    assert not aws.eks.clusters, "the audit exits non-zero if anything is left; this is the fake's own view"
    assert aws.unmodelled == []
