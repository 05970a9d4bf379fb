"""One control group per node, below which its kubelet makes those of the pods: here memory limits become real."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from tests.kube.places import NODES, Place

ROOT = Path("/sys/fs/cgroup")


def create(place: Place) -> None:
    for node in NODES:
        for hierarchy in _hierarchies():
            group = hierarchy / place.namespace(node)
            group.mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):
                # In version 1 a group without CPUs and memory nodes takes no process.
                if (group / name).exists() and not (group / name).read_text().strip():
                    (group / name).write_text((hierarchy / name).read_text())


def _hierarchies() -> list[Path]:
    """Version 2 has one tree, version 1 has one per controller."""
    return [ROOT] if (ROOT / "cgroup.controllers").exists() else [path for path in ROOT.iterdir() if path.is_dir()]


def groups(place: Place, node: str = "*") -> Iterator[Path]:
    for hierarchy in _hierarchies():
        yield from hierarchy.glob(place.namespace(node))


def processes(place: Place, node: str = "*") -> set[int]:
    found: set[int] = set()
    for group in groups(place, node):
        for file in group.rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                found.update(int(pid) for pid in file.read_text().split())
    return found


def remove(place: Place, seconds: float = 10) -> None:
    """A group can go only when the kernel has buried its last process, which takes a moment."""
    deadline = time.monotonic() + seconds
    while True:
        for group in groups(place):
            for each in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
                with contextlib.suppress(OSError):
                    each.rmdir()
            with contextlib.suppress(OSError):
                group.rmdir()
        if not list(groups(place)) or time.monotonic() > deadline:
            return
        time.sleep(0.1)
