"""What the machine says about memory: how often it has killed a process of this container for want of it."""

from __future__ import annotations

from pathlib import Path

_EVENTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
"""In version 2 of control groups, and in version 1."""


def memory_kills() -> int:
    for path in _EVENTS:
        try:
            lines = Path(path).read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(" ")
            if name == "oom_kill" and value.isdigit():
                return int(value)
    return 0
