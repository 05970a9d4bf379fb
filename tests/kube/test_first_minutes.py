"""docs/first-five-minutes.md for the user who has a kubeconfig and an image, word for word on a real cluster.

The way to AWS and back, of which the same page has a shorter form, is test_whole_way.py.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import yaml

from tests.first_minutes import follow, section
from tests.kube.images import RUNTIME
from tests.kube.namespace import Namespace


def test_a_kubeconfig_and_an_image(namespace: Namespace, tmp_path: Path) -> None:
    """But for the image's name, and for less CPU: the cluster is one machine, on which other tests run."""
    access = yaml.safe_load(Path(namespace.cluster.kubeconfig).read_text())
    for context in access["contexts"]:
        context["context"]["namespace"] = namespace.name
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.dump(access))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(kubeconfig)}

    blocks = [
        replace(block, text=block.text.replace("REGISTRY/umiak:0.1.0", RUNTIME))
        for block in section("A kubeconfig and an image")
    ]
    written = next(at for at, block in enumerate(blocks) if "umiak job init" in block.text) + 1
    follow(blocks[:written], tmp_path, environment, ("pip install",))
    here = tmp_path / "first-job"
    spec = here / "job.yaml"
    assert RUNTIME in spec.read_text() and 'cpu: "1"' in spec.read_text()
    spec.write_text(spec.read_text().replace('cpu: "1"', "cpu: 200m"))

    said = follow(blocks[written:], here, environment)
    assert "kind: Job" in said and "first-job: done in" in said
    assert list((here / "model").glob("pass-*"))
    namespace.wait("what Kubernetes removes in its own time", lambda: namespace.left() == [], 60)
