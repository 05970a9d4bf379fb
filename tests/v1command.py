"""`paddle` as a user of 2016 has it: on the path, called by shell scripts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.processes import hear_interrupts, umiak


def installed(directory: Path) -> Path:
    """A directory for PATH that holds `paddle`."""
    directory.mkdir(parents=True, exist_ok=True)
    umiak("paddle", "install", directory)
    return directory


def environment(path: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PATH": f"{path}:{os.environ['PATH']}", **more}


def shell(text: str, path: Path, cwd: Path, code: int = 0, timeout: float = 120, **more: str) -> str:
    """Run a script in bash; what it and all it called said."""
    done = subprocess.run(
        ["bash", "-c", text],
        cwd=cwd,
        env=environment(path, XDG_CONFIG_HOME=str(path / "config"), **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
        preexec_fn=hear_interrupts,
    )
    assert done.returncode == code, f"exit code {done.returncode}, expected {code}\n{done.stdout}"
    return done.stdout
