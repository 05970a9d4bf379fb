"""What only Linux has: /proc, prctl, mallopt, control groups, and forks of a process that uses torch.

Everything here works elsewhere, too: it then does without, or says in one line what cannot be done. Tests run it as macOS would.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import signal
import sys
from pathlib import Path

from umiak.errors import InputError

PROC = Path("/proc")
_CGROUP = Path("/sys/fs/cgroup")
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
"""Names of settings in mallopt(3)."""
_PR_SET_PDEATHSIG = 1
_MOST_FILES = 10_240
"""macOS states no limit and accepts no more than this (OPEN_MAX)."""


def is_linux() -> bool:
    return sys.platform == "linux"


def need_linux(what: str, instead: str) -> None:
    if not is_linux():
        raise InputError(f"{what} needs Linux, and this is {platform.system()}: {instead}")


def cores() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_quota() -> float | None:
    """The cores that the container may use together, if it is limited."""
    quota, _, period = _line(_CGROUP / "cpu.max").partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def available_memory() -> int | None:
    """Bytes that can be had without swapping: of the machine, or of the container if that has less. None if unknown."""
    found = [int(line.split()[1]) * 1024 for line in _lines(PROC / "meminfo") if line.startswith("MemAvailable:")]
    limit, used = _line(_CGROUP / "memory.max"), _line(_CGROUP / "memory.current")
    if limit.isdigit() and used.isdigit():
        found.append(max(0, int(limit) - int(used)))
    return min(found, default=None)


def memory_kills() -> int:
    """How often the kernel has killed a process of this container for want of memory."""
    for path in (_CGROUP / "memory.events", _CGROUP / "memory" / "memory.oom_control"):  # version 2, version 1
        for line in _lines(path):
            name, _, value = line.partition(" ")
            if name == "oom_kill" and value.isdigit():
                return int(value)
    return 0


def usage(pid: int) -> tuple[int, float] | None:
    """Memory in bytes and seconds of processor time of a process; None if it is gone, or this system does not tell."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE"), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_model() -> str:
    models = (line.partition(":")[2].strip() for line in _lines(PROC / "cpuinfo") if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def process_namespace() -> str:
    """Names the processes that share their ids with this one, and no others; empty if the system cannot tell."""
    with contextlib.suppress(OSError):
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{(PROC / 'self/ns/pid').stat().st_ino}"
    return ""


def listener(port: int) -> str:
    """Who listens on a TCP port."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        for line in _lines(PROC / "net" / table)[1:]:
            fields = line.split()
            if int(fields[1].rpartition(":")[2], 16) == port and fields[3] == "0A":
                inodes.add(f"socket:[{fields[9]}]")
    for process in PROC.glob("[0-9]*") if inodes else ():
        with contextlib.suppress(OSError):
            if any(str(fd.readlink()) in inodes for fd in (process / "fd").iterdir()):
                return f"process {process.name} ({(process / 'comm').read_text().strip()})"
    return "another process"


def locked_files() -> set[tuple[int, int]]:
    """Device and inode of every file that a process of this machine has locked with flock; none if the system does not tell."""
    found = set()
    for line in _lines(PROC / "locks"):
        words = line.split()
        if len(words) > 5 and words[1] == "FLOCK":
            major, minor, inode = words[5].split(":")
            found.add((os.makedev(int(major, 16), int(minor, 16)), int(inode)))
    return found


def place(descriptor: int) -> Path | None:
    """Where an open file really lies; None if the system does not tell."""
    link = PROC / "self/fd" / str(descriptor)
    return link.readlink() if link.exists() else None


def die_with_parent() -> None:
    """Have this process killed when the one that forked it ends."""
    if is_linux():
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def keep_freed_memory(count: int) -> None:
    """Have malloc keep up to so many bytes that are freed for what is allocated next."""
    if is_linux():
        with contextlib.suppress(OSError, AttributeError):  # not every C library has this
            library = ctypes.CDLL(None)
            library.mallopt(_MMAP_MAX, 0)
            library.mallopt(_TRIM_THRESHOLD, count)


def open_more_files() -> None:
    """Raise the limit of open files as far as this user may."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (ValueError, OSError):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (_MOST_FILES, most))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _line(path: Path) -> str:
    return next(iter(_lines(path)), "")
