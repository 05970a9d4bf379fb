"""A running cluster: starting it, finding one that runs, taking it down, and what tests do to it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3

from tests.kube import build, cgroups, cleanup, control, images, needs, network, node, node_init, record, registry, seed
from tests.kube.command import run
from tests.kube.pki import Authority, cluster_keys
from tests.kube.places import CLONE, NODES, Place, cache, places
from umiak.errors import InputError, UmiakError

SMALL_MEGABYTES = 64
CLUSTERS = "clusters"
"""Starting and ending other clusters, which is done one at a time: a test looks at what that changes on the machine."""
# On EKS the add-on brings it: volumes of this kind need not be attached to a node first.
EFS_DRIVER = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSIDriver",
    "metadata": {"name": "efs.csi.aws.com"},
    "spec": {"attachRequired": False},
}


@dataclass(frozen=True)
class Cluster:
    place: Place
    home: Path
    binaries: Path

    @property
    def kubeconfig(self) -> Path:
        return self.home / "keys" / "admin.kubeconfig"

    @property
    def volume(self) -> Path:
        """The directory behind the nfs path /efs, which every node mounts."""
        return self.home / "volumes" / "efs"

    @property
    def small_volume(self) -> Path:
        """The directory behind the nfs path /small: a file system that is soon full."""
        return self.home / "volumes" / "small"

    def kubectl(self, *words: str, check: bool = True, text: str = "", timeout: float = 120) -> str:
        tool = [str(self.binaries / "kubectl"), f"--kubeconfig={self.kubeconfig}"]
        return run(*tool, *words, check=check, text=text, timeout=timeout)

    @cached_property
    def _api(self) -> urllib3.PoolManager:
        keys = self.home / "keys"
        files = {"ca_certs": keys / "ca.crt", "cert_file": keys / "admin.crt", "key_file": keys / "admin.key"}
        return urllib3.PoolManager(timeout=30, retries=2, **{name: str(path) for name, path in files.items()})

    def read(self, path: str, **query: str) -> str:
        """What the API server answers to a GET. Tests that wait ask often, and a kubectl each time costs more than the answer."""
        return self._request("GET", path, query)

    def delete(self, path: str, **query: str) -> None:
        """Delete an object or, with a selector, all such objects, without waiting for the end of it."""
        self._request("DELETE", path, query)

    def _request(self, method: str, path: str, query: dict[str, str]) -> str:
        answer = self._api.request(method, f"https://{self.place.control}:6443/{path}?{urlencode(query)}")
        if answer.status >= 300:
            raise UmiakError(f"{method} {path}: {answer.data.decode()}")
        return answer.data.decode()

    def get(self, path: str, **query: str) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.read(path, **query))
        return value

    def pods(self, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.get(f"api/v1/namespaces/{namespace}/pods", labelSelector=selector)["items"]
        return items

    def log(self, pod: dict[str, Any]) -> str:
        """What a pod has said so far; nothing before it runs."""
        where = pod["metadata"]
        try:
            return self.read(f"api/v1/namespaces/{where['namespace']}/pods/{where['name']}/log")
        except UmiakError:
            return ""

    def apply(self, *objects: dict[str, Any]) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "--server-side", "-f", "-", text=json.dumps(listed))

    def kubeconfig_of(self, user: str, group: str | None = None, life: timedelta = timedelta(days=1)) -> Path:
        """A kubeconfig for a user without any right until a test gives one; with a negative life it has expired."""
        keys = Authority(self.home / "keys", f"https://{self.place.control}:6443")
        keys.issue(user, user, group, life=life)
        return keys.kubeconfig(user)

    def set_link(self, name: str, up: bool) -> None:
        """Pull (`up=False`) or plug the cable of a node."""
        network.set_link(self.place, name, up)

    def nft(self, name: str, rules: str) -> str:
        """Change what a node lets pass, or ask it."""
        return run("ip", "netns", "exec", self.place.namespace(name), "nft", "-f", "-", text=rules)

    def ready(self) -> dict[str, bool]:
        """Which nodes there are, and whether they are Ready."""
        items = self.get("api/v1/nodes")["items"]
        return {item["metadata"]["name"]: _is_ready(item) for item in items}

    def stop_api_server(self) -> None:
        self._daemon(control.API_SERVER).stop(signal.SIGKILL)

    def start_api_server(self) -> None:
        self._daemon(control.API_SERVER).start()
        self._wait_for_api()

    def restart_node(self, name: str) -> None:
        """Switch it off and on: its pods are gone, and it registers again if it had been deleted."""
        cleanup.end_processes(self.place, name)
        self._daemon(name).start(node.environment())
        self.wait(f"node {name}", lambda: self.ready().get(name, False))

    def publish(self, name: str, image: images.Image) -> None:
        """Let `name` (with host and tag, such as docker.io/umiak/runtime:test) mean this image, on every node and at once."""
        names = json.loads(self._names.read_text()) if self._names.exists() else {}
        if names.get(name) == image.digest:
            return
        self._write_names({**names, name: image.digest})
        for member in NODES:
            if (self.files(member).socket).exists():
                self.ctr(member, "images", "pull", "--hosts-dir", str(self.home / "hosts"), name, timeout=600)

    def ctr(self, member: str, *words: str, timeout: float = 120) -> str:
        address = self.files(member).socket
        return run(self.binaries / "ctr", "--address", address, "--namespace", "k8s.io", *words, timeout=timeout)

    def files(self, member: str) -> node.Files:
        return node.Files(self.home, member)

    @property
    def daemons(self) -> list[control.Daemon]:
        nodes = [control.Daemon(n, node.command(self.place, n, self.files(n)), self.home) for n in NODES]
        return [*control.daemons(self.place, self.home, self.binaries, images.layout()), *nodes]

    def check(self) -> None:
        """Raise if a part of the cluster is no longer running."""
        for daemon in self.daemons:
            if daemon.started and daemon.process is None:
                raise daemon.ended()

    def wait(self, what: str, met: Callable[[], bool], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not met():
            self.check()
            if time.monotonic() > deadline:
                raise UmiakError(f"{what}: not within {seconds:.0f} s; the logs are in {self.home}")
            time.sleep(0.5)

    @contextmanager
    def one_at_a_time(self, what: str) -> Iterator[None]:
        """Of the processes that share this cluster's tests, one does this and the others wait."""
        with (self.home / f"{what}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def start(self) -> None:
        for name in ("efs", "small"):
            (self.home / "volumes" / name).mkdir(parents=True)
        self.volume.chmod(0o777)
        run("mount", "-t", "tmpfs", "-o", f"size={SMALL_MEGABYTES}m,mode=777", "tmpfs", self.small_volume)
        keys = self.home / "keys"
        cluster_keys(keys, self.place)
        network.create(self.place)
        cgroups.create(self.place)
        self._write_files()
        self._write_names({images.PAUSE: images.pause(self.binaries).digest})
        for member in NODES:
            node.configure(self.place, member, self.files(member), self.binaries, keys)
        # The others end at once if the API server does not yet know what they may do.
        first = ("registry", "etcd", control.API_SERVER, *NODES)
        for daemon in sorted(self.daemons, key=lambda daemon: daemon.name not in first):
            if daemon.name not in first:
                self._wait_for_api()
            daemon.start(node.environment())
        self.apply(EFS_DRIVER)
        self.wait("the image registry", self._serves_images)
        self.wait("three Ready nodes", lambda: self.ready() == dict.fromkeys(NODES, True))

    def _write_files(self) -> None:
        (self.home / control.WEBHOOK).write_text(control.webhook(self.place))
        (self.home / "resolv.conf").write_text(f"nameserver {self.place.control}\n")
        (self.home / "Corefile").write_text(control.names_server(self.place, self.home))
        every_host = self.home / "hosts" / "_default"
        every_host.mkdir(parents=True)
        (every_host / "hosts.toml").write_text(node.hosts(self.place))
        program = self.home / "programs" / "mount"
        program.parent.mkdir()
        program.write_text(node.mount_program(self.home / "volumes"))
        program.chmod(0o755)

    def _wait_for_api(self) -> None:
        self.wait("the API server", lambda: self.kubectl("get", "--raw=/readyz", check=False) == "ok")
        self.wait("the default namespace", lambda: "default" in self.kubectl("get", "ns", "-o", "name", check=False))

    def _serves_images(self) -> bool:
        try:
            socket.create_connection((self.place.control, registry.PORT), timeout=1).close()
        except OSError:
            return False
        return True

    def _daemon(self, name: str) -> control.Daemon:
        return next(daemon for daemon in self.daemons if daemon.name == name)

    @property
    def _names(self) -> Path:
        return self.home / "names.json"

    def _write_names(self, names: dict[str, str]) -> None:
        part = self._names.with_suffix(".part")
        part.write_text(json.dumps(names, indent=1))
        part.rename(self._names)


def _is_ready(item: dict[str, Any]) -> bool:
    conditions = item.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def running(owner: record.Process | None = None) -> Cluster | None:
    """This clone's cluster that belongs to `owner`, or was started by hand, if it is up."""
    for place, found in record.taken():
        if found.clone == str(CLONE) and found.owner == owner and not _litter(place, found):
            return _cluster(place, found)
    return None


def of_run(owner: record.Process) -> Cluster:
    """The cluster of a test run, with the runtime image; the first of the run's processes that asks starts it.

    One that was started by hand is used instead, if there is one.
    """
    with (cache() / "run.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        used = running() or running(owner) or up(owner)
        used.publish(images.RUNTIME, images.ensure())
    return used


def up(owner: record.Process | None = None) -> Cluster:
    """Start a cluster in a free place. It belongs to `owner` (when that process is gone it is litter) or to nobody."""
    needs.require()
    binaries = build.build()
    seeded = images.seed_for(binaries)
    clean()
    for place in places():
        with _locked(place) as mine:
            if not mine or record.read(place):
                continue
            home = cache() / f"cluster-{place.number}"
            if home.exists():
                shutil.rmtree(home)
            record.Record(str(CLONE), str(home), owner, *cleanup.machine_before()).write(place)
            for path in node_init.PRIVATE:
                Path(path).mkdir(parents=True, exist_ok=True)
            home.mkdir(parents=True)
            cluster = Cluster(place, home, binaries)
            (home / "binaries").symlink_to(binaries)
            try:
                for member in NODES:
                    seed.plant(seeded, cluster.files(member).root)
                cluster.start()
            except BaseException:
                _keep_logs(home)
                cleanup.remove(place)
                raise
            return cluster
    raise InputError(
        f"all {len(list(places()))} places of this machine are taken: `python -m tests.kube down --all` frees them"
    )


def down(cluster: Cluster) -> None:
    with _locked(cluster.place):
        cleanup.remove(cluster.place)


def clean(everything: bool = False) -> list[Place]:
    """Remove what dead test runs and rebooted machines left; with `everything`, running clusters too."""
    removed = []
    for place, found in record.taken():
        if everything or _litter(place, found):
            with _locked(place) as mine:
                if mine:
                    cleanup.remove(place)
                    removed.append(place)
    return removed


def _cluster(place: Place, found: record.Record) -> Cluster:
    home = Path(found.home)
    return Cluster(place, home, (home / "binaries").resolve())


def _litter(place: Place, found: record.Record) -> bool:
    if found.owner is not None and not found.owner.alive:
        return True
    return found.owner is None and not cleanup.processes(place)


@contextmanager
def _locked(place: Place) -> Iterator[bool]:
    """Whether this process may change what is in the place; a dead one's lock is free."""
    place.lock.parent.mkdir(parents=True, exist_ok=True)
    with place.lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _keep_logs(home: Path) -> None:
    """A start that failed takes its directory away; the logs say why, so they stay."""
    kept = cache() / "last-failure"
    shutil.rmtree(kept, ignore_errors=True)
    for log in home.rglob("*.log"):
        if log.parent in (home, *(home / name for name in NODES)):
            (kept / log.relative_to(home)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(log, kept / log.relative_to(home))


def shell(cluster: Cluster) -> int:
    """A shell in which kubectl and ctr are this cluster's."""
    path = f"{cluster.binaries}:{os.environ['PATH']}"
    env = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "PATH": path}
    return subprocess.call([os.environ.get("SHELL", "/bin/sh")], env=env)
