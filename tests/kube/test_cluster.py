"""The cluster that the other tests stand on: is it a real one, and does nothing of it stay?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kube import cleanup, images, record
from tests.kube.cluster import CLUSTERS, Cluster
from tests.kube.namespace import Namespace
from tests.kube.places import CLONE, NODES, PLACES, Place

HARDENED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
HARDENED_POD: dict[str, Any] = {
    "automountServiceAccountToken": False,
    "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
    "volumes": [{"name": "tmp", "emptyDir": {}}],
}


def succeeded(namespace: Namespace, workers: int = 1) -> bool:
    return list(namespace.phases().values()) == ["Succeeded"] * workers


@pytest.fixture
def other_clusters(cluster: Cluster) -> Iterator[None]:
    with cluster.one_at_a_time(CLUSTERS):
        yield


def test_three_nodes_are_ready(cluster: Cluster) -> None:
    assert cluster.ready() == dict.fromkeys(NODES, True)


def test_pods_of_a_job_find_each_other_by_name_on_three_nodes_and_share_the_volume(namespace: Namespace) -> None:
    script = """
import os, pathlib, socket, time
index = int(os.environ["JOB_COMPLETION_INDEX"])
server = socket.create_server(("", 7164))
found, deadline = {}, time.monotonic() + 60
while len(found) < 3 and time.monotonic() < deadline:
    for peer in range(3):
        try:
            found[peer] = socket.create_connection((f"hello-{peer}.hello", 7164), timeout=2)
        except OSError:
            time.sleep(0.2)
pathlib.Path(f"/volume/{index}").write_text(str(len(found)))
while len(list(pathlib.Path("/volume").iterdir())) < 3 and time.monotonic() < deadline:
    time.sleep(0.1)
"""
    service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"job": "hello"}}
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    job = namespace.job(
        "hello",
        ["python3", "-c", script],
        images.BASE,
        workers=3,
        container={"volumeMounts": [{"name": "shared", "mountPath": "/volume"}]},
        volumes=[{"name": "shared", "persistentVolumeClaim": {"claimName": "efsvol"}}],
        topologySpreadConstraints=[{**spread, "labelSelector": {"matchLabels": {"job": "hello"}}}],
    )
    namespace.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hello"}, "spec": service}, job)
    namespace.wait("all three to succeed", lambda: succeeded(namespace, 3), 120)
    assert {pod["spec"]["nodeName"] for pod in namespace.pods()} == set(NODES)
    assert {path.name: path.read_text() for path in namespace.volume.iterdir()} == {"0": "3", "1": "3", "2": "3"}


def test_the_runtime_image_runs_hardened_and_compiles_nothing(namespace: Namespace) -> None:
    """Every kernel must come out of the baked cache: a compilation in each pod would cost a job half a minute."""
    script = """
import os, time
import umiak.pserver.warm as warm
from numba.core import event
from umiak.worker.forked import warm_up
with event.install_recorder("numba:compile") as compiled:
    warm.main()
    warm_up()
assert not compiled.buffer, [e.data["dispatcher"] for _, e in compiled.buffer]
assert os.getuid() == 1000
try:
    open("/opt/umiak/file", "w")
except OSError as error:
    print("read-only", error.errno)
"""
    wrapped = f"umiak --version && python -c '{script}'"
    container = {"securityContext": HARDENED, "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]}
    job = namespace.job("warm", ["sh", "-ec", wrapped], images.RUNTIME, container=container, **HARDENED_POD)
    namespace.apply(job)
    namespace.wait("the pod to end", lambda: set(namespace.phases().values()) <= {"Succeeded", "Failed"} != set(), 120)
    log = namespace.kubectl("logs", "job/warm")
    assert succeeded(namespace), log
    assert "read-only 30" in log


def test_a_memory_limit_kills(namespace: Namespace) -> None:
    eats = ["python3", "-c", "x = b'1' * (1 << 29)"]
    limited = {"resources": {"limits": {"memory": "64Mi"}}}
    namespace.apply(namespace.job("greedy", eats, images.BASE, container=limited))
    namespace.wait("the pod to fail", lambda: list(namespace.phases().values()) == ["Failed"])
    [status] = namespace.pods()[0]["status"]["containerStatuses"]
    assert (status["state"]["terminated"]["reason"], status["state"]["terminated"]["exitCode"]) == ("OOMKilled", 137)


def test_an_image_that_nobody_published_is_not_found(namespace: Namespace) -> None:
    namespace.apply(namespace.job("lost", ["true"], "registry.example.com/no/such:image"))

    def reason() -> str:
        for pod in namespace.pods():
            for status in pod["status"].get("containerStatuses", []):
                return str(status["state"].get("waiting", {}).get("reason"))
        return ""

    namespace.wait("the pull to fail", lambda: reason() in ("ErrImagePull", "ImagePullBackOff"))


@pytest.mark.usefixtures("small_volume")
def test_a_small_volume_is_soon_full(namespace: Namespace) -> None:
    namespace.claim("small", "/small")
    writes = ["python3", "-c", "open('/volume/x', 'wb').write(bytes(1 << 27))"]
    mounted = {
        "volumeMounts": [{"name": "v", "mountPath": "/volume"}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "small"}}]
    namespace.apply(namespace.job("full", writes, images.BASE, container=mounted, volumes=volumes))
    namespace.wait("the pod to fail", lambda: list(namespace.phases().values()) == ["Failed"])
    [status] = namespace.pods()[0]["status"]["containerStatuses"]
    assert "No space left on device" in status["state"]["terminated"]["message"]


def test_a_killed_test_run_leaves_only_what_the_next_one_removes(other_clusters: None) -> None:
    """A second cluster beside the first, its owner killed as soon as it runs, then everything of it looked for."""
    script = """
import time
from tests.kube import cluster, record
found = cluster.up(owner=record.Process.this())
print("place", found.place.number, flush=True)
time.sleep(600)
"""
    before = _machine()
    process = subprocess.Popen([sys.executable, "-c", script], cwd=CLONE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = next(line for line in process.stdout if line.startswith("place "))
    place = Place(int(said.split()[1]))
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    found = record.read(place)
    assert found is not None
    assert len(cleanup.processes(place)) > 10
    began = time.monotonic()
    next_run = "from tests.kube import cluster; cluster.clean()"
    subprocess.run([sys.executable, "-c", next_run], cwd=CLONE, check=True)
    assert time.monotonic() - began < 60
    assert cleanup.left(place, found) == []
    assert not Path(found.home).exists()
    assert _machine() == before


def _mounts() -> list[str]:
    """All but those of tests/faults, which come and go meanwhile."""
    lines = [line for line in Path("/proc/mounts").read_text().splitlines() if not line.startswith("umiak-faulty ")]
    return [line.split()[1] for line in sorted(lines)]


def _machine() -> dict[str, list[str]]:
    """What a cluster changes on a machine, as names."""

    def lines(*command: str) -> list[str]:
        return sorted(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())

    return {
        "links": [line.split(":")[1] for line in lines("ip", "-o", "link")],
        "namespaces": lines("ip", "netns", "list"),
        # Another clone may be building images meanwhile.
        "mounts": [point for point in _mounts() if "/umiak/kube/images-" not in point],
        "routes": lines("ip", "route"),
        "rules": lines("nft", "list", "tables"),
        "cgroups": sorted(str(path) for path in Path("/sys/fs/cgroup").glob("*/umk*")),
        "sysctls": [Path("/proc/sys", name).read_text() for name in cleanup.SYSCTLS],
        "directories": sorted(
            str(p) for d in ("/run", "/var/lib", "/var/log") for p in Path(d).iterdir() if p != PLACES
        ),
    }
