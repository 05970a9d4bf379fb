"""An image into a registry: what it has already is not sent, the rest travels side by side, and the manifest comes last.

Until the manifest is there nobody sees anything of it, so a push that ends half-way is simply repeated.
"""

from __future__ import annotations

import concurrent.futures
import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from umiak.image.layers import Layer, Store
from umiak.image.reference import Reference
from umiak.image.registry import MANIFESTS, Repository

OCI_MANIFEST = MANIFESTS[0]
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
PARALLEL = 4

# Bytes that are done, and all of them.
Show = Callable[[int, int], None]


@dataclass(frozen=True)
class Pushed:
    digest: str
    size: int
    sent: int


class Meter:
    """Adds up what several threads do."""

    def __init__(self, show: Show) -> None:
        self._show, self._lock = show, threading.Lock()
        self.done = self.total = 0

    def expect(self, count: int) -> Callable[[int], None]:
        with self._lock:
            self.total += count
        return self.add

    def add(self, count: int) -> None:
        with self._lock:
            self.done += count
            self._show(self.done, self.total)


def push(
    repository: Repository,
    config: dict[str, Any],
    layers: list[Layer],
    store: Store,
    meter: Meter,
    neighbour: Reference | None = None,
) -> Pushed:
    """`neighbour`: a repository that may have some of the layers; in the same registry they need not travel."""
    described = json.dumps(config, sort_keys=True).encode()
    first = Layer(store.put(described), len(described), "", OCI_CONFIG)
    missing = _missing(repository, [first, *layers])
    near = neighbour.repository if neighbour and neighbour.host == repository.image.host else ""
    tell = meter.expect(sum(layer.size for layer in missing))
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        sent = [pool.submit(repository.upload, layer.digest, store.blob(layer.digest), tell, near) for layer in missing]
        try:
            for each in concurrent.futures.as_completed(sent):
                each.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": _descriptor(first),
            "layers": [_descriptor(layer) for layer in layers],
        }
    ).encode()
    digest = store.put(manifest)
    repository.put_manifest(repository.image.tag or digest, manifest, OCI_MANIFEST)
    store.clean(time.time())
    return Pushed(digest, sum(layer.size for layer in layers), sum(layer.size for layer in missing))


def _missing(repository: Repository, layers: Iterable[Layer]) -> list[Layer]:
    distinct = {layer.digest: layer for layer in layers}
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        there = pool.map(repository.has_blob, distinct)
        return [layer for layer, is_there in zip(distinct.values(), there, strict=True) if not is_there]


def _descriptor(layer: Layer) -> dict[str, Any]:
    return {"mediaType": layer.media, "digest": layer.digest, "size": layer.size}
