"""Hosts of a small cluster: network namespaces of this machine on one bridge, each with a disk and a home of its own.

Needs root and ip(8). Nothing leaves the machine: the bridge has no way out.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.processes import kill_tree

NETWORK = "10.231.77"
MISSING = (
    "needs root, for network namespaces"
    if os.geteuid()
    else "needs ip(8), of the Debian package iproute2"
    if shutil.which("ip") is None
    else ""
)
"""Why there can be no hosts here; empty if there can."""


class Host:
    """Commands on it see `disk` where all hosts have the directory `job`."""

    def __init__(self, name: str, address: str, job: Path, disk: Path) -> None:
        self.name, self.address, self.job, self.disk = name, address, job, disk
        self.home = disk / "home"
        self.home.mkdir(parents=True)
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, script: str, path: str) -> subprocess.Popen[bytes]:
        """Run a script in bash, in the job's directory."""
        mounted = f"mount --bind '{self.disk}' '{self.job}' && cd '{self.job}' && {{ {script}\n}}"
        environment = {**os.environ, "PATH": path, "HOME": str(self.job / "home"), "XDG_CONFIG_HOME": ""}
        self.processes.append(
            subprocess.Popen(
                ["ip", "netns", "exec", self.name, "bash", "-c", mounted],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=(self.disk / f"out-{len(self.processes)}").open("wb"),
                stderr=subprocess.STDOUT,
            )
        )
        return self.processes[-1]

    def said(self) -> str:
        return "\n".join(
            f"--- {self.name} {path.name}\n{path.read_text()}"
            for path in sorted([*self.disk.glob("out-*"), *self.disk.glob("log/*.log")])
        )


@contextlib.contextmanager
def hosts(count: int, directory: Path) -> Iterator[list[Host]]:
    bridge = f"um{secrets.token_hex(3)}"
    job = directory / "job"
    job.mkdir()
    made: list[Host] = []
    try:
        _ip("link", "add", bridge, "type", "bridge")
        _ip("link", "set", bridge, "up")
        for number in range(count):
            name = f"{bridge}-{number}"
            made.append(Host(name, f"{NETWORK}.{9 + number}", job, directory / f"disk-{number}"))
            _ip("netns", "add", name)
            _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", name, "master", bridge, "up")
            _ip("-n", name, "addr", "add", f"{made[-1].address}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield made
    finally:
        for host in made:
            for process in host.processes:
                kill_tree(process.pid)
                process.wait(10)
            # The link goes by its name: a connection that is still being closed keeps its namespace for a while.
            for kind in ("link", "netns"):
                subprocess.run(["ip", kind, "del", host.name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", bridge], check=False, capture_output=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
