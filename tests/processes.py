"""Running umiak as a user does, in processes of its own, and finding what it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fork_server import SERVER, SERVER_NAME, ForkedPopen

TINY = Path(__file__).with_name("tiny.py")


def start(*words: str | Path, pause: float = 0.0, fresh: bool = False, **environment: str) -> subprocess.Popen[str]:
    """`fresh`: in a new interpreter, where the start itself is tested; else in a fork of one that has torch imported."""
    command = [sys.executable, "-m", "umiak.cli.main", *map(str, words)]
    given: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "env": {**os.environ, "UMIAK_TEST_PAUSE": str(pause), **environment},
    }
    if fresh:
        return subprocess.Popen(command, start_new_session=True, preexec_fn=hear_interrupts, **given)
    return ForkedPopen(command, **given)


def hear_interrupts() -> None:
    """A shell that runs the tests in the background has all their processes ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def umiak(
    *words: str | Path, pause: float = 0.0, code: int = 0, timeout: float = 120, fresh: bool = False, **environment: str
) -> str:
    """Run to the end; its standard error if a failure is expected, else its standard output."""
    process = start(*words, pause=pause, fresh=fresh, **environment)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        kill_tree(process.pid)
        raise
    assert process.returncode == code, f"exit code {process.returncode}, expected {code}\n{out}\n{err}"
    return err if code else out


def children(pid: int) -> list[int]:
    try:
        return [int(x) for path in Path(f"/proc/{pid}/task").glob("*/children") for x in path.read_text().split()]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    found = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def is_server(pid: int) -> bool:
    """Whether a process is a parameter server: a fork of the tests, or the program that users have."""
    process = Path(f"/proc/{pid}")
    return (process / "comm").read_bytes().strip() == SERVER_NAME or SERVER.encode() in (
        process / "cmdline"
    ).read_bytes()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def kill_tree(pid: int) -> None:
    for each in [pid, *descendants(pid)]:
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:
            continue


def wait_until_gone(pids: list[int], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline, f"still running: {[pid for pid in pids if alive(pid)]}"
        time.sleep(0.05)


def wait_for(condition: Callable[[], Any], process: subprocess.Popen[str], seconds: float = 60) -> None:
    """Until it is so; a process that ends before that is shown."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, f"it ended with {process.returncode}: {process.communicate()}"
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.05)


def snapshot_bytes(out: Path) -> dict[str, bytes]:
    """Every file of every snapshot below an output directory."""
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.glob("pass-*/*"))}
