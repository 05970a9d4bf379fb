"""A node: the configuration files of containerd, kubelet and kube-proxy, and the command that starts them.

Besides, a node has a plugin for volumes of EFS, which stand for a directory of this machine.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.kube import images, registry
from tests.kube.places import CLONE, NODES, Place

# A node is lost 16 s after its last sign of life, so a test of that need not wait for the default of 50 s.
LEASE_SECONDS = 8
GRACE_SECONDS = 16


class Files:
    """The paths of one node, all below its directory in the cluster's home."""

    def __init__(self, home: Path, node: str) -> None:
        self.home, self.directory = home, home / node
        self.root, self.state = self.directory / "containerd", self.directory / "state"
        self.socket = self.directory / "containerd.sock"
        self.kubelet = self.directory / "kubelet"
        self.network = self.directory / "cni"
        self.plan = self.directory / "plan.json"

    def log(self, part: str) -> Path:
        return self.directory / f"{part}.log"


def command(place: Place, node: str, files: Files) -> list[str]:
    """Enter the node's network, then leave the machine's processes and mounts."""
    inside = [sys.executable, "-m", "tests.kube.node_init", str(files.plan)]
    own = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return ["nsenter", f"--net=/run/netns/{place.namespace(node)}", *own, *inside]


def configure(place: Place, node: str, files: Files, binaries: Path, keys: Path) -> None:
    registry = files.kubelet / "plugins_registry"
    for directory in (files.root, files.state, registry, files.network):
        directory.mkdir(parents=True, exist_ok=True)
    (files.directory / "containerd.toml").write_text(containerd(files))
    (files.network / "10-pods.conflist").write_text(json.dumps(pod_network(place, node, files)))
    kubelet_file, proxy_file = files.directory / "kubelet.json", files.directory / "proxy.json"
    kubelet_file.write_text(json.dumps(kubelet(place, node, files, keys), indent=1))
    proxy_file.write_text(json.dumps(proxy(place, node, keys), indent=1))
    path = os.environ["PATH"]
    daemons = [
        {
            "name": "containerd",
            "command": [str(binaries / "containerd"), "-c", str(files.directory / "containerd.toml")],
            "env": {"PATH": f"{binaries}:{path}"},
            "log": str(files.log("containerd")),
            "socket": str(files.socket),
        },
        {
            "name": "efs",
            "command": [
                str(binaries / "efs"),
                node,
                str(files.home / "volumes" / "efs"),
                str(files.directory / "efs.sock"),
                str(registry / "efs.sock"),
            ],
            "env": {},
            "log": str(files.log("efs")),
            "socket": str(files.directory / "efs.sock"),
        },
        {
            "name": "kubelet",
            "command": [
                str(binaries / "kubelet"),
                f"--config={kubelet_file}",
                f"--kubeconfig={keys / node}.kubeconfig",
                f"--hostname-override={node}",
                f"--node-ip={place.address(node)}",
                f"--root-dir={files.kubelet}",
                f"--cert-dir={files.kubelet / 'pki'}",
                f"--node-labels=node.kubernetes.io/instance-type=test.large,topology.kubernetes.io/zone=test-{node[1:]}",
            ],
            "env": {"PATH": f"{files.home / 'programs'}:{path}"},
            "log": str(files.log("kubelet")),
            "socket": None,
        },
        {
            "name": "kube-proxy",
            "command": [str(binaries / "kube-proxy"), f"--config={proxy_file}"],
            "env": {},
            "log": str(files.log("kube-proxy")),
            "socket": None,
        },
    ]
    files.plan.write_text(json.dumps({"daemons": daemons}, indent=1))


def containerd(files: Files) -> str:
    return f"""version = 3
root = "{files.root}"
state = "{files.state}"
disabled_plugins = ["io.containerd.nri.v1.nri"]
[grpc]
  address = "{files.socket}"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".registry]
    config_path = "{files.home / "hosts"}"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{images.PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "{files.network}"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def hosts(place: Place) -> str:
    """Whatever registry an image's name says: it is ours."""
    ours = f"http://{place.control}:{registry.PORT}"
    return f'server = "{ours}"\n[host."{ours}"]\n  capabilities = ["pull", "resolve"]\n'


def pod_network(place: Place, node: str, files: Files) -> dict[str, object]:
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": place.pods(node)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": str(files.directory / "addresses"),
        },
    }
    return {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}],
    }


def kubelet(place: Place, node: str, files: Files, keys: Path) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(keys / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{keys / node}.crt",
        "tlsPrivateKeyFile": f"{keys / node}.key",
        "clusterDomain": "cluster.local",
        "clusterDNS": [place.control],
        "resolvConf": str(files.home / "resolv.conf"),
        "containerRuntimeEndpoint": f"unix://{files.socket}",
        "podLogsDir": str(files.directory / "pod-logs"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{place.namespace(node)}",
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        # Every node sees the whole machine; together they must not offer more memory than it has.
        "systemReserved": {"memory": f"{_machine_kilobytes() * (len(NODES) - 1) // len(NODES)}Ki"},
        "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "100Mi"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "nodeLeaseDurationSeconds": LEASE_SECONDS,
        "nodeStatusUpdateFrequency": f"{LEASE_SECONDS // 4}s",
        "registryPullQPS": 0,
        "serializeImagePulls": False,
    }


def proxy(place: Place, node: str, keys: Path) -> dict[str, object]:
    nothing = {"maxPerCore": 0, "min": 0, "tcpCloseWaitTimeout": "0s", "tcpEstablishedTimeout": "0s"}
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": f"{keys / 'kube-proxy'}.kubeconfig"},
        "mode": "nftables",
        "hostnameOverride": node,
        "clusterCIDR": place.all_pods,
        "conntrack": nothing,
    }


def _machine_kilobytes() -> int:
    first = Path("/proc/meminfo").read_text().splitlines()[0]
    return int(first.split()[1])


def mount_program(volumes: Path) -> str:
    """Stands before mount(8) in the kubelet's PATH: the kernel may have no NFS client, and there is no NFS server.

    An nfs mount of SERVER:/PATH becomes a bind mount of the directory PATH of the cluster's volumes; a path that is not there
    fails as a server would refuse it.
    """
    return f"""#!/bin/sh
nfs=; source=; target=
for word; do
  [ "$word" = nfs ] && nfs=1
  source=$target; target=$word
done
[ -z "$nfs" ] && exec /bin/mount "$@"
directory={volumes}/${{source#*:/}}
[ -d "$directory" ] || {{ echo "mount.nfs: mounting $source failed: no such file or directory" >&2; exit 32; }}
exec /bin/mount --bind "$directory" "$target"
"""


def environment() -> dict[str, str]:
    """For the node's first process, which is a module of this clone."""
    return {**os.environ, "PYTHONPATH": str(CLONE)}
