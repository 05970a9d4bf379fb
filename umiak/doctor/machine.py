"""What a machine offers: facts are asked for here and judged at once. Loads nothing heavy and needs no network."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import umiak
from umiak import extras, system
from umiak.doctor.report import Check
from umiak.errors import InputError
from umiak.wire.address import socket_directory

GB = 1 << 30
NEWEST_PYTHON = (3, 14)
"""The newest that was run; docs/install.md has all of them."""
LEAST_DISK, GOOD_DISK = GB // 4, 2 * GB
LEAST_MEMORY, GOOD_MEMORY = GB // 2, 2 * GB
GOOD_SHARED = GB // 16
"""What a container engine gives if it is not told otherwise."""
SHARED = Path("/dev/shm")
LEAST_FILES, GOOD_FILES = 256, 4096
GOOD_PROCESSES = 512


def checks(directory: Path) -> Iterator[Check]:
    yield _python()
    yield _system()
    yield _cores()
    yield _memory(system.available_memory())
    yield _disk(directory)
    yield _temporary()
    yield _shared(SHARED)
    yield _files(*resource.getrlimit(resource.RLIMIT_NOFILE))
    yield _processes(resource.getrlimit(resource.RLIMIT_NPROC)[0])
    yield _clock(time.time(), Path(umiak.__file__).stat().st_mtime)
    yield _kernels()
    yield _extras()


def _python() -> Check:
    version = platform.python_version()
    if sys.version_info[:2] > NEWEST_PYTHON:
        newest = ".".join(map(str, NEWEST_PYTHON))
        return Check("python", "warn", version, f"newer than {newest}, the newest that umiak was tested with")
    return Check("python", "ok", f"{version}, {sys.executable}")


def _system() -> Check:
    told = f"{platform.system()} {platform.machine()}, umiak {umiak.__version__}"
    if system.is_linux():
        return Check("system", "ok", told)
    return Check("system", "warn", told, "only `umiak train --local` works here; workers need Linux")


def _cores() -> Check:
    count, quota = system.cores(), system.cpu_quota()
    told = f"{count} for this process"
    if quota is not None and quota < count:
        return Check(
            "cores", "warn", f"{told}, but the container may use {quota:.1f}", "raise its CPU limit to use all"
        )
    if count == 1:
        return Check("cores", "warn", told, "several workers will take turns, so that they are no faster than one")
    return Check("cores", "ok", told)


def _memory(available: int | None) -> Check:
    if available is None:
        return Check("memory", "ok", "this system does not say how much is free")
    told = f"{available / GB:.1f} GB free"
    if available < LEAST_MEMORY:
        return Check("memory", "fail", told, "end other programs, or raise the container's limit")
    if available < GOOD_MEMORY:
        return Check("memory", "warn", told, "train with fewer --workers, or raise the container's limit")
    return Check("memory", "ok", told)


def _disk(directory: Path) -> Check:
    try:
        free = shutil.disk_usage(directory).free
    except OSError as error:
        return Check("disk", "fail", f"{directory} cannot be read: {error.strerror}", "change to another directory")
    told = f"{free / GB:.1f} GB free in {directory}"
    if not os.access(directory, os.W_OK):
        return Check("disk", "fail", f"{directory} cannot be written", "change to a directory of yours, or give --out")
    if free < LEAST_DISK:
        return Check("disk", "fail", told, "make room: checkpoints and snapshots are written while a model trains")
    if free < GOOD_DISK:
        return Check("disk", "warn", told, "make room for checkpoints and snapshots, or give --out on another disk")
    return Check("disk", "ok", told)


def _temporary() -> Check:
    """Where the sockets of workers go."""
    try:
        with socket_directory() as made, tempfile.TemporaryFile(dir=made) as file:
            file.write(bytes(4096))
            file.flush()
            return Check("temporary", "ok", str(made.parent))
    except InputError as error:
        return Check("temporary", "fail", str(error))
    except OSError as error:
        place = tempfile.gettempdir()
        return Check(
            "temporary", "fail", f"{place}: {error.strerror}", "make room there, or set TMPDIR to another directory"
        )


def _shared(directory: Path) -> Check:
    """torch's DataLoader passes batches through it, should a config use one."""
    if not directory.is_dir():
        return Check("shm", "none", f"there is no {directory}")
    free = shutil.disk_usage(directory).free
    told = f"{free / GB:.2f} GB free in {directory}"
    if free < GOOD_SHARED:
        advice = (
            "delete what is left there, or start the container with --shm-size=1g; a DataLoader with workers needs it"
        )
        return Check("shm", "warn", told, advice)
    return Check("shm", "ok", told)


def _files(soft: int, hard: int) -> Check:
    """Servers raise their own limit to the hard one."""
    if hard == resource.RLIM_INFINITY:
        return Check("files", "ok", "no limit of open files")
    told = f"{soft} open files, at most {hard}"
    if hard < LEAST_FILES:
        return Check("files", "fail", told, f"raise the hard limit (ulimit -Hn, limits.conf) to {GOOD_FILES}")
    if hard < GOOD_FILES:
        return Check(
            "files", "warn", told, f"raise the hard limit (ulimit -Hn, limits.conf) to {GOOD_FILES} for many workers"
        )
    return Check("files", "ok", told)


def _processes(limit: int) -> Check:
    if limit == resource.RLIM_INFINITY:
        return Check("processes", "ok", "no limit")
    if limit < GOOD_PROCESSES:
        advice = f"raise it (ulimit -u, limits.conf) to {GOOD_PROCESSES}; all threads of this user count"
        return Check("processes", "warn", f"{limit} for this user", advice)
    return Check("processes", "ok", f"{limit} for this user")


def _clock(now: float, installed: float) -> Check:
    """A clock that is behind the files on its disk is wrong. How it compares to a cluster's, kubeconfig says."""
    told = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if now < installed - 86_400:
        return Check(
            "clock", "fail", f"{told}, before umiak was installed", "set it; certificates and AWS depend on it"
        )
    return Check("clock", "ok", told)


def _kernels() -> Check:
    """Whether numba can keep what it compiles."""
    place = os.environ.get("NUMBA_CACHE_DIR") or str(Path(umiak.__file__).parent)
    home = Path("~/.cache").expanduser()
    if os.access(place, os.W_OK) or os.access(home, os.W_OK) or os.access(home.parent, os.W_OK):
        return Check("kernels", "ok", "compiled once and kept")
    advice = "set NUMBA_CACHE_DIR to a directory that can be written"
    return Check("kernels", "warn", f"{place} cannot be written, so every start compiles anew", advice)


def _extras() -> Check:
    absent = [extra for extra in extras.EXTRAS if extras.missing(extra)]
    if not absent:
        return Check("extras", "ok", "all are installed")
    there = [extra for extra in extras.EXTRAS if extra not in absent]
    told = f"{', '.join(there) or 'none'} installed; not installed: {', '.join(absent)}"
    return Check("extras", "none", told, f"{extras.install('all')} adds them")
