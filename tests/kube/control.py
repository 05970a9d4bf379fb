"""The control plane: the commands of its processes, all in one network namespace, and starting and stopping them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.kube import network, node, registry
from tests.kube.pki import SERVICE_ADDRESS
from tests.kube.places import Place
from tests.kube.record import Process
from umiak.errors import UmiakError

API_SERVER = "kube-apiserver"
WEBHOOK, WEBHOOK_PORT = "webhook.kubeconfig", 7099


@dataclass(frozen=True)
class Daemon:
    """A process that outlives the one that starts it, and is known by its file of process id and start time."""

    name: str
    command: list[str]
    home: Path

    @property
    def log(self) -> Path:
        return self.home / f"{self.name}.log"

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        with self.log.open("ab") as log:
            started = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=environment
            )
        process = Process.of(started.pid)
        if process is None:
            raise self.ended()
        self._file.write_text(f"{process.pid} {process.start}\n")

    @property
    def started(self) -> bool:
        return self._file.exists()

    @property
    def process(self) -> Process | None:
        """The running process, if it is running."""
        with contextlib.suppress(OSError, ValueError):
            pid, start = self._file.read_text().split()
            found = Process(int(pid), int(start))
            return found if found.alive else None
        return None

    def stop(self, number: signal.Signals = signal.SIGKILL, seconds: float = 30) -> None:
        process = self.process
        if process is None:
            return
        os.kill(process.pid, number)
        deadline = time.monotonic() + seconds
        while process.alive:
            if time.monotonic() > deadline:
                raise UmiakError(f"{self.name} (process {process.pid}) did not end within {seconds:.0f} s")
            time.sleep(0.02)
        self._file.unlink()

    def ended(self) -> UmiakError:
        said = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return UmiakError(f"{self.name} ended: {' | '.join(said[-5:])[-1500:]}; all of it is in {self.log}")

    @property
    def _file(self) -> Path:
        return self.home / f"{self.name}.pid"


def webhook(place: Place) -> str:
    """Tokens that are none of the cluster's own are shown to whoever listens there, as EKS does with those of IAM."""
    server = {"cluster": {"server": f"http://{place.gateway}:{WEBHOOK_PORT}/token-review"}, "name": "webhook"}
    context = {"context": {"cluster": "webhook", "user": "apiserver"}, "name": "webhook"}
    users = [{"name": "apiserver", "user": {}}]
    config = {"apiVersion": "v1", "kind": "Config", "clusters": [server], "users": users, "contexts": [context]}
    return json.dumps({**config, "current-context": "webhook"})


def daemons(place: Place, home: Path, binaries: Path, layout: Path) -> list[Daemon]:
    keys = home / "keys"
    enter = ["nsenter", f"--net=/run/netns/{place.namespace(network.CONTROL)}"]
    served = [place.control, str(registry.PORT), str(home / "names.json"), str(layout)]
    commands = {
        "registry": [sys.executable, "-m", "tests.kube.registry", *served],
        "etcd": [str(binaries / "etcd"), *_etcd(home)],
        API_SERVER: [str(binaries / API_SERVER), *_api_server(place, home, keys)],
        "kube-controller-manager": [str(binaries / "kube-controller-manager"), *_controllers(home, keys)],
        "kube-scheduler": [str(binaries / "kube-scheduler"), *_scheduler(home, keys)],
        "coredns": [str(binaries / "coredns"), "-conf", str(home / "Corefile")],
    }
    return [Daemon(name, [*enter, *command], home) for name, command in commands.items()]


def _etcd(home: Path) -> list[str]:
    """Nothing that this etcd holds has to survive the machine, so it need not wait for the disk."""
    client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
    listen = [f"--listen-client-urls={client}", f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}"]
    return [f"--data-dir={home / 'etcd'}", "--unsafe-no-fsync", *listen]


def _api_server(place: Place, home: Path, keys: Path) -> list[str]:
    network_prefix = SERVICE_ADDRESS.rpartition(".")[0].rpartition(".")[0]
    flags = {
        "advertise-address": place.control,
        "bind-address": place.control,
        "secure-port": "6443",
        "etcd-servers": "http://127.0.0.1:2379",
        "service-cluster-ip-range": f"{network_prefix}.0.0/16",
        "tls-cert-file": keys / "apiserver.crt",
        "tls-private-key-file": keys / "apiserver.key",
        "client-ca-file": keys / "ca.crt",
        "kubelet-client-certificate": keys / "apiserver-to-kubelet.crt",
        "kubelet-client-key": keys / "apiserver-to-kubelet.key",
        "kubelet-certificate-authority": keys / "ca.crt",
        "kubelet-preferred-address-types": "InternalIP",
        "service-account-key-file": keys / "accounts.pub",
        "service-account-signing-key-file": keys / "accounts.key",
        "service-account-issuer": "https://kubernetes.default.svc",
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "allow-privileged": "true",
        "endpoint-reconciler-type": "master-count",
        "cert-dir": home / "apiserver",
        "authentication-token-webhook-config-file": home / WEBHOOK,
        "authentication-token-webhook-version": "v1",
    }
    return [f"--{name}={value}" for name, value in flags.items()]


def _controllers(home: Path, keys: Path) -> list[str]:
    flags = {
        "kubeconfig": keys / "kube-controller-manager.kubeconfig",
        "authentication-kubeconfig": keys / "kube-controller-manager.kubeconfig",
        "authorization-kubeconfig": keys / "kube-controller-manager.kubeconfig",
        "use-service-account-credentials": "true",
        "service-account-private-key-file": keys / "accounts.key",
        "root-ca-file": keys / "ca.crt",
        "cluster-signing-cert-file": keys / "ca.crt",
        "cluster-signing-key-file": keys / "ca.key",
        "allocate-node-cidrs": "false",
        "leader-elect": "false",
        "node-monitor-period": "2s",
        "node-monitor-grace-period": f"{node.GRACE_SECONDS}s",
        "cert-dir": home / "controllers",
    }
    return [f"--{name}={value}" for name, value in flags.items()]


def _scheduler(home: Path, keys: Path) -> list[str]:
    config = keys / "kube-scheduler.kubeconfig"
    names = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    return [*(f"--{name}={config}" for name in names), "--leader-elect=false", f"--cert-dir={home / 'scheduler'}"]


def names_server(place: Place, home: Path) -> str:
    return f""".:53 {{
  bind {place.control}
  errors
  kubernetes cluster.local in-addr.arpa ip6.arpa {{
    kubeconfig {home / "keys" / "admin.kubeconfig"} umiak-test
    ttl 2
  }}
  cache 2
}}
"""
