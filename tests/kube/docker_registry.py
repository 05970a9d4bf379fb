"""A real registry (Debian's docker-registry) on the test cluster's own network, under any names, for programs and for nodes.

Names lead to it by a private view of /etc/hosts (`seen_by`), and for the nodes' containerd by its own files.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.kube import images
from tests.kube.cluster import Cluster
from tests.kube.command import run
from tests.kube.pki import Authority

PORT = 443
HUB = "registry-1.docker.io"
_CONFIG = """version: 0.1
log: {{level: warn}}
storage:
  filesystem: {{rootdirectory: {data}}}
http:
  addr: {address}:{port}
  tls: {{certificate: {keys}/registry.crt, key: {keys}/registry.key}}
"""


@dataclass(frozen=True)
class DockerRegistry:
    directory: Path
    address: str

    @property
    def bundle(self) -> Path:
        """The machine's authorities and ours, for SSL_CERT_FILE."""
        return self.directory / "bundle.pem"

    def seen_by(self, command: str) -> list[str]:
        """A shell command to which the registry's names lead here, and nobody else."""
        view = f'mount --bind {self.directory / "hosts"} /etc/hosts && exec sh -c "$0"'
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", view, command]

    def put_base(self, name: str) -> None:
        """Debian with Python, under a name that the rest of the world knows."""
        images.base()
        source = f"oci:{images.layout()}:umiak/base"
        copy = ["skopeo", "copy", "--quiet", "--insecure-policy", "--dest-tls-verify=false", source]
        run(*copy, f"docker://{self.address}:{PORT}/{name}", timeout=300)


@contextmanager
def serving(cluster: Cluster, directory: Path, names: tuple[str, ...]) -> Iterator[DockerRegistry]:
    """`names`: hosts by which it is called. Nodes pull from it what they are told to pull from there."""
    directory.mkdir()
    found = DockerRegistry(directory, cluster.place.gateway)
    authority = Authority(directory / "keys", "")
    authority.issue("registry", "registry", hosts=(*names, found.address))
    system = Path("/etc/ssl/certs/ca-certificates.crt").read_text()
    found.bundle.write_text(system + (directory / "keys" / "ca.crt").read_text())
    (directory / "hosts").write_text(f"127.0.0.1 localhost\n{found.address} {' '.join(names)}\n")
    config = directory / "config.yml"
    config.write_text(
        _CONFIG.format(data=directory / "data", address=found.address, port=PORT, keys=directory / "keys")
    )
    nodes = [cluster.home / "hosts" / name for name in names]
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen(["docker-registry", "serve", str(config)], stdout=log, stderr=log)
    try:
        cluster.wait("the docker registry", lambda: _answers(found.address))
        for place in nodes:
            place.mkdir()
            here = f"https://{found.address}:{PORT}"
            trust = f'  ca = "{directory / "keys" / "ca.crt"}"\n'
            (place / "hosts.toml").write_text(
                f'server = "{here}"\n[host."{here}"]\n  capabilities = ["pull", "resolve"]\n{trust}'
            )
        yield found
    finally:
        server.terminate()
        server.wait()
        for place in nodes:
            (place / "hosts.toml").unlink(missing_ok=True)
            place.rmdir()


def _answers(address: str) -> bool:
    try:
        socket.create_connection((address, PORT), timeout=1).close()
    except OSError:
        return False
    return True
