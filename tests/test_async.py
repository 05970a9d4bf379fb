"""Asynchronous mode: nobody waits for a slow or a lost trainer; old gradients are dropped; passes and cuts are for all."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from tests.processes import TINY, children, descendants, is_server, kill_tree, start, umiak, wait_until_gone
from umiak.errors import RetryError
from umiak.pserver.asynchronous import AsyncService
from umiak.pserver.protocol import Flags, ServiceSpec
from umiak.pserver.service import Contribution
from umiak.rundir import checkpoint
from umiak.rundir.checkpoint import Manifest
from umiak.spec.optim import SGD, to_json
from umiak.trainer.beginning import check_rounds

JOB = ("train", str(TINY), "--workers", "3", "--mode", "async")


def service(trainers: int = 2, ratio: float = 1.5) -> AsyncService:
    spec = ServiceSpec(
        0, 1, trainers, 1, to_json(SGD(lr=1.0)), {}, [("w", 0, 1)], [], 0, 1, mode="async", lag_ratio=ratio
    )
    return AsyncService(spec, np.zeros(1, np.float32))


def part(gradient: float, flags: Flags = Flags.NONE) -> Contribution:
    return Contribution(1, flags, 0.0, np.array([gradient], np.float32), [])


def test_a_message_is_applied_at_once() -> None:
    one = service()
    one.apply(0, part(1.0))
    assert one.dense.values[0] == -1
    one.apply(1, part(2.0))
    assert one.dense.values[0] == -3


def test_a_gradient_older_than_the_bound_is_dropped_and_counted() -> None:
    one = service(trainers=2, ratio=1.5)
    for _ in range(2):
        one.apply(0, part(1.0))
    assert Flags.DROPPED not in one.apply(1, part(10.0)).flags
    for _ in range(3):
        one.apply(0, part(1.0))
    assert Flags.DROPPED in one.apply(1, part(100.0)).flags
    assert one.dropped == 1 and one.dense.values[0] == -15
    assert Flags.DROPPED not in one.apply(1, part(0.5)).flags


def test_a_cut_is_told_to_each_trainer_once_and_not_begun_when_one_is_out_of_data() -> None:
    one = service()
    assert Flags.CHECKPOINT in one.apply(0, part(0, Flags.CHECKPOINT)).flags
    assert Flags.CHECKPOINT in one.apply(1, part(0)).flags
    assert Flags.CHECKPOINT not in one.apply(0, part(0)).flags
    one.apply(1, part(0, Flags.OUT_OF_DATA))
    assert Flags.CHECKPOINT not in one.apply(0, part(0, Flags.CHECKPOINT)).flags
    one.apply(0, part(0, Flags.OUT_OF_DATA))
    assert one.clock.pass_id == 1


def config(tmp_path: Path, slow: float) -> Path:
    """The tiny config, with trainer 2 slower than the others by `slow` seconds a batch."""
    path = tmp_path / "config.py"
    path.write_text(
        f"{TINY.read_text()}\nimport dataclasses\n"
        "class Uneven:\n"
        "    def batches(self, size, shard, seed, start=0):\n"
        "        for batch in table(1, SAMPLES).batches(size, shard, seed, start):\n"
        f"            time.sleep({slow} if shard.index == 2 else 0.02)\n"
        "            yield batch\n"
        "config = dataclasses.replace(config, train=Uneven())\n"
    )
    return path


def pass_done(log: Path) -> float:
    """When a trainer wrote its last dot before the end of the first pass: its own data were used up."""
    line = next(line for line in log.read_text().splitlines() if " Batch=20 " in line)
    hours, minutes, seconds = line.split()[1].split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_one_slow_trainer_does_not_slow_the_others(tmp_path: Path, mode: str) -> None:
    out = tmp_path / "out"
    path = config(tmp_path, slow=0.25)
    umiak("train", path, "--workers", "3", "--passes", "1", "--mode", mode, "--log_period", "20", "--out", out)
    fast, slow = pass_done(out / "node_0" / "train.log"), pass_done(out / "node_2" / "train.log")
    if mode == "async":
        assert slow - fast > 2
    else:
        assert slow - fast < 1


def wait_for_rounds(out: Path, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not (out / "metrics.jsonl").exists() or '"round"' not in (out / "metrics.jsonl").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def trainer_of(supervisor: int) -> int:
    """The trainer among a supervisor's children: the one that is not a server of its own program."""
    return next(pid for pid in children(supervisor) if not is_server(pid))


@pytest.mark.parametrize("victim", [0, 2])
def test_a_lost_trainer_is_replaced_while_the_others_go_on(tmp_path: Path, victim: int) -> None:
    out = tmp_path / "out"
    # A trainer that dies at the end of a pass restarts the job. On a busy machine, the kill must still come before that.
    process = start(*JOB, "--passes", "2", "--log_period", "1", "--out", out, pause=0.2)
    try:
        wait_for_rounds(out)
        os.kill(trainer_of(children(process.pid)[victim]), signal.SIGKILL)
        text, err = process.communicate(timeout=90)
    finally:
        kill_tree(process.pid)
    assert process.returncode == 0, err
    assert f"worker {victim} was killed" in text and "continuing as generation" not in text
    assert (out / "pass-00001" / "done").exists()


def test_a_lost_server_restarts_the_job_from_its_checkpoint(tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start(*JOB, "--passes", "3", "--log_period", "1", "--out", out, pause=0.05)
    try:
        deadline = time.monotonic() + 60
        while not (out / "pass-00000" / "done").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        server = next(pid for pid in descendants(process.pid) if is_server(pid))
        os.kill(server, signal.SIGKILL)
        text, err = process.communicate(timeout=90)
    finally:
        kill_tree(process.pid)
    assert process.returncode == 0, err
    assert "continuing as generation 1" in text and (out / "pass-00002" / "done").exists()


def test_ctrl_c_cuts_consistently_and_resume_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start(*JOB, "--passes", "2", "--log_period", "1", "--out", out, pause=0.05)
    try:
        wait_for_rounds(out)
        below = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        kill_tree(process.pid)
    assert process.returncode == 75 and "with a checkpoint" in err
    wait_until_gone(below)
    manifest = json.loads(max(out.glob("checkpoints/*/manifest.json")).read_text())
    assert manifest["pass_id"] == 0 and manifest["identity"]["the mode"] == "async"
    umiak(*JOB, "--passes", "2", "--resume", "--out", out)
    assert (out / "pass-00001" / "done").exists()


def test_a_service_that_dropped_a_gradient_and_so_counts_less_can_be_resumed(tmp_path: Path) -> None:
    directory = checkpoint.directory_for(tmp_path, 12, 0)
    directory.mkdir(parents=True)
    checkpoint.commit(directory, Manifest(12, 0, 96, {}, {}, []))
    check_rounds([12, 11, 14], directory, exact=False)
    for rounds, exact in (([12, 11], True), ([12, 0], False)):
        with pytest.raises(RetryError, match="start all trainers again"):
            check_rounds(rounds, directory, exact)
