"""Without Linux. There is no Mac here: a process is made to look like one, as far as Python shows the difference.

torch and numba are loaded before that, because they would look for libraries of macOS. Root also hides /proc.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import TINY
from umiak import system

MAC = """
import mmap, os, platform, resource, socket, sys
import numba, torch
sys.platform = "darwin"
platform.system = lambda: "Darwin"
for module, names in (
    (os, ("sched_setaffinity", "sched_getaffinity", "memfd_create", "pidfd_open", "posix_fadvise", "waitid", "eventfd", "fork")),
    (mmap, ("MADV_HUGEPAGE", "MADV_DONTNEED")),
    (socket, ("TCP_USER_TIMEOUT", "TCP_KEEPIDLE", "SO_PEERCRED")),
):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
from umiak.cli.main import main
"""


def as_mac(program: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", MAC + program]
    if os.getuid() == 0 and shutil.which("unshare"):
        command = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh", *command]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=200)


def test_a_mac_trains_in_one_process_and_says_what_it_cannot_do(tmp_path: Path) -> None:
    done = as_mac(
        f"""
assert main(["train", {str(TINY)!r}, "--local", "--passes", "1", "--out", "out"]) == 0
assert main(["test", "out/pass-00000"]) == 0
sys.exit(main(["train", {str(TINY)!r}, "--workers", "2", "--out", "other"]))
""",
        tmp_path,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1] == (
        "umiak: training with workers needs Linux, and this is Darwin: train in one process with --local"
    )
    assert (tmp_path / "out" / "pass-00000").is_dir() and not (tmp_path / "other").exists()


def test_the_machine_is_described_without_proc(tmp_path: Path) -> None:
    done = as_mac(
        """
from umiak import system
system.die_with_parent(); system.keep_freed_memory(1 << 20); system.open_more_files()
print(system.cores() >= 1, system.process_namespace(), system.memory_kills(), system.listener(1), bool(system.cpu_model()))
""",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    told = done.stdout.split(maxsplit=1)
    assert told[0] == "True" and "another process" in told[1]


def test_this_machine() -> None:
    assert system.cores() == len(os.sched_getaffinity(0))
    assert system.cpu_model() and system.process_namespace()
    memory = system.available_memory()
    assert memory and memory > 1 << 20


def test_a_limit_of_open_files_that_the_system_refuses_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS, whose hard limit is infinite and cannot be had."""
    asked = []

    def refuse(which: int, limits: tuple[int, int]) -> None:
        asked.append(limits)
        if limits[0] > 10_240:
            raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 1 << 62))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    system.open_more_files()
    assert asked == [(1 << 62, 1 << 62), (10_240, 1 << 62)]


def test_linux_only_calls_are_in_one_place() -> None:
    """`umiak bench` and what runs in pods are for Linux alone."""
    words = ("/proc/", '"/proc"', "prctl", "mallopt", "memfd", "pidfd", "SO_PEERCRED", "cgroup/")
    package = Path(system.__file__).parent
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if not path.is_relative_to(package / "bench") and any(word in path.read_text() for word in words)
    }
    assert found == {"system.py"}
