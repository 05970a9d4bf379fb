"""A training run that goes on while a test watches the page."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.processes import TINY, children, descendants, kill_tree, start, wait_until_gone


@contextlib.contextmanager
def training(out: Path, *words: str, pause: float = 0.1, workers: int = 2) -> Iterator[subprocess.Popen[str]]:
    """Two workers, so slow that there is time to look."""
    given = ("--workers", str(workers), "--log_period", "1", "--checkpoint_minutes", "0.02", "--out", str(out), *words)
    with sockets() as place:
        process = start("train", TINY, *given, pause=pause, TMPDIR=place)
        try:
            yield process
        finally:
            left = descendants(process.pid)
            kill_tree(process.pid)
            process.communicate(timeout=30)
            wait_until_gone(left)


def sockets() -> tempfile.TemporaryDirectory[str]:
    """Where a job puts its sockets: what is killed leaves them. The path of a socket must be short."""
    return tempfile.TemporaryDirectory(prefix="umiak-page-", ignore_cleanup_errors=True)


def kill_a_trainer(launcher: int) -> None:
    """The youngest process of a supervisor: it starts its server first."""
    supervisor = next(pid for pid in children(launcher) if children(pid))
    os.kill(max(children(supervisor)), signal.SIGKILL)
