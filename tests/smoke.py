"""`python -m tests.smoke`: does umiak work with this Python and this torch? For versions that are not the lock's.

Trains with two workers and alone, tests and loads snapshots, one of an earlier version among them, and trains a v1 config.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from tests import v1demo

TESTS = Path(__file__).parent
OLD = TESTS / "fixtures" / "run_before_house"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        umiak(here, "train", TESTS / "tiny.py", "--workers", "2", "--passes", "2", "--out", "workers")
        umiak(here, "train", TESTS / "tiny.py", "--local", "--passes", "1", "--out", "local")
        umiak(here, "test", "workers/pass-00001")
        umiak(here, "test", OLD / "output" / "pass-00001", "--config", OLD / "config.py")
        run(here, "-c", "import umiak; umiak.load('workers/pass-00001')")
        v1demo.write(here / "v1")
        umiak(here / "v1", "train", "trainer_config.demo.py", "--workers", "2", "--passes", "1", "--out", "out")
    print(f"Python {platform.python_version()} and torch {torch.__version__}: ok")


def umiak(cwd: Path, *words: str | Path) -> None:
    run(cwd, "-m", "umiak.cli.main", *words)


def run(cwd: Path, *words: str | Path) -> None:
    path = os.pathsep.join(filter(None, (str(TESTS.parent), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(
            f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        )


if __name__ == "__main__":
    main()
