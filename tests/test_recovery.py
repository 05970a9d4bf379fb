"""Whatever is killed, and whenever: the job ends with the very bytes of an undisturbed run."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.processes import TINY, alive, descendants, kill_tree, snapshot_bytes, start, umiak, wait_until_gone

PASSES = 5
PAUSE = 0.03
KILLS = 27
JOB = ("train", TINY, "--workers", "3", "--passes", PASSES, "--checkpoint_minutes", "0.01", "--max_restarts", "100")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("undisturbed")
    umiak(*map(str, JOB), "--out", out / "run")
    return snapshot_bytes(out / "run")


def run_with_kills(out: Path, draw: random.Random, kills: int) -> list[str]:
    """Run the job, killing random processes of it; a dead launcher is followed by --resume. What was killed."""
    killed: list[str] = []
    begun = False
    while True:
        resume = ["--resume"] if begun and any(out.glob("checkpoints/*/manifest.json")) else ["--overwrite"]
        process = start(*map(str, JOB), "--out", out, *resume, pause=PAUSE)
        seen: set[int] = set()
        try:
            while process.poll() is None:
                pause = draw.uniform(0.2, 4.0)
                deadline = time.monotonic() + pause
                while process.poll() is None and time.monotonic() < deadline:
                    seen.update(descendants(process.pid))
                    time.sleep(0.05)
                if process.poll() is None and len(killed) < kills:
                    begun = begun or any(out.glob("checkpoints/*/manifest.json"))
                    killed.append(kill_one(process.pid, draw))
        finally:
            kill_tree(process.pid)
        out_text, err_text = process.communicate(timeout=20)
        wait_until_gone(sorted(seen))
        if process.returncode == 0:
            return killed
        assert process.returncode == -signal.SIGKILL, f"{killed}\n{out_text}\n{err_text}"


def kill_one(launcher: int, draw: random.Random) -> str:
    """Kill one process of a job, or all of it at once."""
    below = [pid for pid in descendants(launcher) if alive(pid)]
    kind = draw.choice(["any", "any", "any", "any", "launcher", "all"])
    victims = [launcher] if kind == "launcher" or not below else [launcher, *below] if kind == "all" else [draw.choice(below)]
    for pid in victims:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return kind


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_kill_9_at_random_moments_changes_no_byte(tmp_path: Path, undisturbed: dict[str, bytes], seed: int) -> None:
    killed = run_with_kills(tmp_path / "run", random.Random(seed), KILLS // 3)
    assert len(killed) >= KILLS // 3 - 2, "the run ended before enough was killed"
    assert snapshot_bytes(tmp_path / "run") == undisturbed
