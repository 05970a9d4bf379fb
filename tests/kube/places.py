"""Where things lie: the cache that all clones of this user share, and the places that a cluster of this machine takes.

A place is a number from 0 to 9, from which the names of links, namespaces and cgroups and the addresses follow. So two clones
can each have a cluster at the same time, and what a crashed one left can be found by its names.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

CLONE = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
PLACES = Path("/run/umiak-kube")
NODES = ("n1", "n2", "n3")
COUNT = 10


def cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "umiak" / "kube"


def key(parts: Iterable[str | bytes | Path]) -> str:
    """A short name for exactly these inputs; a path stands for what the file holds."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.read_bytes() if isinstance(part, Path) else part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Place:
    number: int

    @property
    def name(self) -> str:
        return f"umk{self.number}"

    @property
    def lock(self) -> Path:
        return PLACES / f"{self.number}.lock"

    @property
    def record(self) -> Path:
        """Says who uses this place and what is to be cleaned; small, and the same file for every user of the machine."""
        return PLACES / f"{self.number}.json"

    @property
    def gateway(self) -> str:
        return f"10.77.{self.number}.1"

    @property
    def control(self) -> str:
        """The address of the control plane, the names server and the image registry."""
        return f"10.77.{self.number}.10"

    def namespace(self, node: str) -> str:
        """The network namespace of a node, its link's name on the bridge, and its cgroup's name."""
        return f"{self.name}-{node}"

    def address(self, node: str) -> str:
        return f"10.77.{self.number}.{11 + NODES.index(node)}"

    def pods(self, node: str) -> str:
        return f"10.{80 + self.number}.{1 + NODES.index(node)}.0/24"

    @property
    def all_pods(self) -> str:
        return f"10.{80 + self.number}.0.0/16"


def places() -> Iterator[Place]:
    yield from map(Place, range(COUNT))
