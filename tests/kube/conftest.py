"""The cluster of a test run, and a namespace for each test.

A cluster that was started by hand (`python -m tests.kube up`) is used and left running; else the run starts its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kube import cluster as clusters
from tests.kube import images
from tests.kube.cluster import Cluster
from tests.kube.namespace import Namespace
from tests.kube.record import Process


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    found = clusters.running()
    mine = found is None
    used = found or clusters.up(owner=Process.this())
    try:
        used.publish(images.RUNTIME, images.ensure())
        yield used
    finally:
        if mine:
            clusters.down(used)


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[Namespace]:
    made = Namespace.create(cluster)
    try:
        yield made
    finally:
        made.remove()
