"""Takes a cluster down and leaves nothing, whatever state it is in; also what a killed test run left behind.

Nothing here trusts a list that a crash could have cut short. A process belongs to a cluster if it is in one of its network
namespaces or cgroups; mounts are found by their path, links, namespaces and cgroups by their names.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from pathlib import Path

from tests.kube import cgroups, network, node_init
from tests.kube.command import run
from tests.kube.places import Place
from tests.kube.record import Record, read, taken
from umiak.errors import UmiakError

# Where ip(8) keeps network namespaces; it mounts the directory on itself.
NETWORKS = Path("/run/netns")
# The kubelet sets these for the whole machine, where they would outlive it.
SYSCTLS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)


def machine_before() -> tuple[dict[str, str], tuple[str, ...]]:
    """What to go back to, sysctls and absent directories: as another cluster found it, if there is one, else as it is now."""
    for _, other in taken():
        return other.sysctls, other.made
    paths = {name: Path("/proc/sys") / name for name in SYSCTLS}
    absent = [path for path in node_init.PRIVATE if not Path(path).exists()]
    if str(NETWORKS) not in mounts(str(NETWORKS)):
        absent.append(str(NETWORKS))
    return {name: path.read_text().strip() for name, path in paths.items() if path.exists()}, tuple(absent)


def processes(place: Place, node: str = "*") -> set[int]:
    """Those of the whole cluster, or of one node."""
    namespaces = set()
    for path in NETWORKS.glob(place.namespace(node)):
        with contextlib.suppress(OSError):
            namespaces.add(path.stat().st_ino)
    found = cgroups.processes(place, node)
    for entry in Path("/proc").glob("[0-9]*/ns/net"):
        with contextlib.suppress(OSError):
            if entry.stat().st_ino in namespaces:
                found.add(int(entry.parts[2]))
    return found - {os.getpid()}


def mounts(home: str) -> list[str]:
    """Mount points at or below a directory, the innermost first."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return sorted((point for point in points if point == home or point.startswith(f"{home}/")), reverse=True)


def left(place: Place, record: Record) -> list[str]:
    """What is still there of a cluster, one line each."""
    found = [f"process {pid}" for pid in sorted(processes(place))]
    found += [f"mount {point}" for point in mounts(record.home)]
    found += [f"network {line}" for line in network.left(place)]
    found += [f"cgroup {path}" for path in cgroups.groups(place)]
    if Path(record.home).exists():
        found.append(f"directory {record.home}")
    if not any(other != place for other, _ in taken()):
        for name, value in record.sysctls.items():
            now = Path("/proc/sys", name).read_text().strip()
            if now != value:
                found.append(f"sysctl {name} is {now}, was {value}")
    return found


def remove(place: Place) -> None:
    """Remove everything of the cluster in this place; the caller holds the place's lock."""
    record = read(place)
    if record is None:
        return
    end_processes(place)
    for point in mounts(record.home):
        run("umount", "--lazy", point, check=False)
    if mounts(record.home):
        raise UmiakError(
            f"cannot unmount {mounts(record.home)[0]}: unmount it, then run `python -m tests.kube down` again"
        )
    network.remove(place)
    cgroups.remove(place)
    if Path(record.home).exists():
        shutil.rmtree(record.home)
    if not any(other != place for other, _ in taken()):
        for name, value in record.sysctls.items():
            Path("/proc/sys", name).write_text(value)
        for path in record.made:
            for point in mounts(path):
                run("umount", point)
            with contextlib.suppress(OSError):
                Path(path).rmdir()
    remaining = left(place, record)
    if remaining:
        raise UmiakError(f"the cluster in {place.name} is down, but this is left: {'; '.join(remaining)}")
    place.record.unlink()


def end_processes(place: Place, node: str = "*", seconds: float = 20) -> None:
    """At once and for good: the first process of a node takes the whole node with it."""
    deadline = time.monotonic() + seconds
    while True:
        remaining = processes(place, node)
        for pid in remaining:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not remaining:
            return
        if time.monotonic() > deadline:
            raise UmiakError(f"these processes of {place.name} do not end: {sorted(remaining)}")
        time.sleep(0.05)
