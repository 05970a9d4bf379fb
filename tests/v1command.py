"""`paddle` as a user of 2016 has it: on the path, called by shell scripts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.fork_server import ForkedPopen
from tests.processes import hear_interrupts, kill_tree, umiak


def installed(directory: Path) -> Path:
    """A directory for PATH that holds `paddle`."""
    directory.mkdir(parents=True, exist_ok=True)
    umiak("paddle", "install", directory)
    return directory


def environment(path: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PATH": f"{path}:{os.environ['PATH']}", **more}


def shell(text: str, path: Path, cwd: Path, code: int = 0, timeout: float = 120, **more: str) -> str:
    """Run a script in bash; what it and all it called said. Of a `paddle …` alone, run what the installed one would."""
    given = {
        "cwd": cwd,
        "env": environment(path, XDG_CONFIG_HOME=str(path / "config"), **more),
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "text": True,
    }
    if re.fullmatch(r"paddle [\w\s./=,-]+", text):
        process = ForkedPopen([sys.executable, "-m", "umiak.cli.paddle", *text.split()[1:]], **given)
    else:
        process = subprocess.Popen(["bash", "-c", text], preexec_fn=hear_interrupts, **given)
    try:
        said: str = process.communicate(timeout=timeout)[0]
    except subprocess.TimeoutExpired:
        kill_tree(process.pid)
        raise
    assert process.returncode == code, f"exit code {process.returncode}, expected {code}\n{said}"
    return said
