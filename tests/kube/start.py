"""`python -m tests.kube.start`: how long a job takes from submit to its first round, by the image it runs in.

Three images with the same code, in turns, each on a node that has it already: of docker/Dockerfile; of `umiak image push`; and
of a push from a machine that cannot compile the kernels.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.kube import cluster as clusters
from tests.kube import docker_registry, images
from tests.kube.docker_registry import DockerRegistry
from tests.kube.jobs import TrainingJob
from tests.kube.namespace import Namespace
from tests.kube.places import NODES
from tests.kube.record import Process
from umiak.image import making

HOST = "registry.test"
TURNS = 5
_PUSH = "import sys; from umiak.cli.main import main; {}; sys.exit(main(['image', 'push', '{}', '--torch', 'lock']))"
_NO_KERNELS = "from umiak.image import kernels; kernels.is_possible = lambda target: False"


def main() -> int:
    used = clusters.up(owner=Process.this())
    try:
        used.publish(images.RUNTIME, images.ensure())
        with tempfile.TemporaryDirectory() as scratch:
            names = (HOST, docker_registry.HUB)
            with docker_registry.serving(used, Path(scratch) / "registry", names) as registry:
                registry.put_base(making.default_base().removeprefix("docker.io/"))
                chosen = {
                    "docker/Dockerfile": images.RUNTIME,
                    "umiak image push": _pushed(used, registry, "with", "pass"),
                    "without kernels": _pushed(used, registry, "without", _NO_KERNELS),
                }
                _measure(used, Path(scratch), chosen)
    finally:
        clusters.down(used)
    return 0


def _pushed(used: clusters.Cluster, registry: DockerRegistry, tag: str, first: str) -> str:
    image = f"{HOST}/umiak/runtime:{tag}"
    program = _PUSH.format(first, image)
    subprocess.run(registry.seen_by(f'SSL_CERT_FILE={registry.bundle} {sys.executable} -c "{program}"'), check=True)
    used.ctr(NODES[0], "images", "pull", "--hosts-dir", str(used.home / "hosts"), image, timeout=900)
    return image


def _measure(used: clusters.Cluster, scratch: Path, chosen: dict[str, str]) -> None:
    times: dict[str, list[float]] = {name: [] for name in chosen}
    here = {"nodeSelector": {"kubernetes.io/hostname": NODES[0]}}
    namespace = Namespace.create(used)
    try:
        for turn in range(TURNS):
            for number, (name, image) in enumerate(chosen.items()):
                job = TrainingJob.write(namespace, scratch, f"start-{number}-{turn}", image=image, pod=here)
                began = time.monotonic()
                job.submit()
                job.until_training()
                times[name].append(time.monotonic() - began)
                job.run("delete")
    finally:
        namespace.remove()
    for name, found in times.items():
        print(
            f"{name:20} {statistics.median(found):5.1f} s  ({', '.join(f'{each:.1f}' for each in found)})", flush=True
        )


if __name__ == "__main__":
    sys.exit(main())
