"""Whatever is killed, and whenever: the job ends with the very bytes of an undisturbed run."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.processes import (
    TINY,
    alive,
    children,
    descendants,
    kill_tree,
    snapshot_bytes,
    start,
    umiak,
    wait_for,
    wait_until_gone,
)
from umiak.worker.coordinator import SILENCE_SECONDS

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
                pause = draw.uniform(0.1, 1.5)
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


def _wait_for_a_pass(out: Path) -> None:
    deadline = time.monotonic() + 60
    while not list(out.glob("pass-*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _send(number: int, pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _waits(pid: int) -> int:
    """How often a process has waited for something: a launcher has seen that nobody says anything when it waits again."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("voluntary_ctxt_switches")).split()[1])


def kill_one(launcher: int, draw: random.Random) -> str:
    """Kill one process of a job, or all of it at once."""
    below = [pid for pid in descendants(launcher) if alive(pid)]
    kind = draw.choice(["any", "any", "any", "any", "launcher", "all"])
    victims = (
        [launcher] if kind == "launcher" or not below else [launcher, *below] if kind == "all" else [draw.choice(below)]
    )
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


def test_a_silent_worker_is_replaced_and_no_byte_changes(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    process = start(*map(str, JOB), "--out", tmp_path / "run", pause=PAUSE)
    try:
        _wait_for_a_pass(tmp_path / "run")
        supervisor = children(process.pid)[-1]
        os.kill(supervisor, signal.SIGSTOP)
        below = descendants(supervisor)
        _send(signal.SIGSTOP, below)
        out, _ = process.communicate(timeout=90)
    finally:
        kill_tree(process.pid)
    assert process.returncode == 0 and "silent" in out
    wait_until_gone([supervisor, *below])
    assert snapshot_bytes(tmp_path / "run") == undisturbed


def test_a_job_that_was_stopped_as_a_whole_goes_on(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    """A container that is paused, a virtual machine that is moved: nobody heard of anybody, and nobody is to blame."""
    process = start(*map(str, JOB), "--out", tmp_path / "run", pause=PAUSE)
    try:
        _wait_for_a_pass(tmp_path / "run")
        _send(signal.SIGSTOP, [process.pid])
        below = descendants(process.pid)
        _send(signal.SIGSTOP, below)
        time.sleep(SILENCE_SECONDS + 1)
        before = _waits(process.pid)
        _send(signal.SIGCONT, [process.pid])
        wait_for(lambda: _waits(process.pid) > before + 1, process)
        _send(signal.SIGCONT, below)
        out, _ = process.communicate(timeout=90)
    finally:
        kill_tree(process.pid)
    assert process.returncode == 0 and "silent" not in out
    assert snapshot_bytes(tmp_path / "run") == undisturbed


def test_a_failure_that_repeats_ends_the_job_with_its_cause(tmp_path: Path) -> None:
    path = tmp_path / "config.py"
    dies = (
        "class Dies(Model):\n    def forward(self, batch):\n        import os, signal\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path.write_text(f"{TINY.read_text()}\nimport dataclasses\n{dies}config = dataclasses.replace(config, model=Dies)\n")
    message = umiak("train", path, "--workers", "2", "--out", tmp_path / "run", code=1)
    assert "trainer of worker" in message and "SIGKILL" in message and "3 times" in message


def test_the_first_round_comes_within_12_seconds(tmp_path: Path) -> None:
    begun = time.monotonic()
    process = start(
        "train", TINY, "--workers", "3", "--passes", "1", "--log_period", "1", "--out", tmp_path / "run", fresh=True
    )
    try:
        metrics = tmp_path / "run" / "metrics.jsonl"
        while not metrics.exists() or '"round"' not in metrics.read_text():
            assert time.monotonic() - begun < 12
            time.sleep(0.02)
        print(f"first round after {time.monotonic() - begun:.1f} s")
        process.communicate(timeout=60)
    finally:
        kill_tree(process.pid)
