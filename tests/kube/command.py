"""Running other programs: their output only when they fail, and then with the command that failed."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from umiak.errors import UmiakError


def run(
    *words: str | Path,
    check: bool = True,
    env: Mapping[str, str] | None = None,
    timeout: float | None = 120,
    text: str = "",
) -> str:
    """Its standard output; `text` is its standard input."""
    command = [str(word) for word in words]
    done = subprocess.run(command, input=text, capture_output=True, text=True, env=env, timeout=timeout, check=False)
    if check and done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise UmiakError(f"`{' '.join(command)[:300]}` ended with {done.returncode}: {said[-2000:]}")
    return done.stdout
