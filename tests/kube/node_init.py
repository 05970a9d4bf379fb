"""The first process of a node: `python -m tests.kube.node_init FILE`, in process, mount and network namespaces of its own.

It hides the machine's state directories behind empty ones, starts containerd, the kubelet and the rest, and buries orphans.
When it dies the kernel ends every process of the node, its pods too, and forgets every mount they made; so taking a node
down is killing one process. It uses only Python itself, because it starts three times.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

PRIVATE = ("/run", "/var/log", "/var/lib/cni")


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    for directory in PRIVATE:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", directory], check=True)
    started = {}
    for daemon in plan["daemons"]:
        env = {**os.environ, **daemon["env"]}
        with Path(daemon["log"]).open("ab") as log:
            process = subprocess.Popen(daemon["command"], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        started[process.pid] = daemon["name"]
        if daemon["socket"]:
            _wait_for(Path(daemon["socket"]))
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid in started:
            sys.exit(
                f"{started[pid]} ended with status {os.waitstatus_to_exitcode(status)}; the node goes down with it"
            )


def _wait_for(socket: Path, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not socket.exists():
        if time.monotonic() > deadline:
            sys.exit(f"{socket} did not appear within {seconds:.0f} s")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
