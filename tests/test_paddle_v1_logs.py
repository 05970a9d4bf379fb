"""Logs of a v1 job as scripts of 2016 read them: a parser written for the original's train.log finds its lines."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import v1demo
from tests.processes import umiak

GLOG = r"[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [\w.]+:\d+\] "
PYTHON = r"\[INFO \d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [\w.]+:\d+\] "
NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?"
EVALUATOR = rf"classification_error_evaluator={NUMBER} "
BATCH = re.compile(
    rf"{GLOG} Batch=(\d+) samples=(\d+) AvgCost=({NUMBER}) CurrentCost=({NUMBER}) "
    rf"Eval: {EVALUATOR} CurrentEval: {EVALUATOR}"
)
PASS = re.compile(rf"{GLOG} Pass=(\d+) Batch=(\d+) samples=(\d+) AvgCost=({NUMBER}) Eval: {EVALUATOR}")
TEST = re.compile(rf"{GLOG} Test samples=(\d+) cost=({NUMBER}) Eval: {EVALUATOR}")
SAVING = re.compile(rf"{GLOG}Saving parameters to (\S+)")
TESTED = re.compile(rf"{GLOG} Pass=(\d+) samples=(\d+) AvgCost=({NUMBER}) Eval: {EVALUATOR}")
WORKERS, PASSES, PERIOD = 2, 2, 5


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("job")
    config = v1demo.write(directory)
    with contextlib.chdir(directory):
        flags = [
            "--use_gpu=0",
            f"--num_passes={PASSES}",
            f"--log_period={PERIOD}",
            "--dot_period=1",
            "--saving_period=1",
        ]
        umiak("train", f"--config={config.name}", f"--workers={WORKERS}", "--save_dir=./output", *flags)
    return directory


def lines(job: Path, worker: int) -> list[str]:
    return (job / "output" / f"node_{worker}" / "train.log").read_text().splitlines()


def test_the_start_is_told_in_the_originals_words_and_order(job: Path) -> None:
    expected = [
        rf"{GLOG}commandline: \S+ train --config=trainer_config.demo.py .*",
        rf"{PYTHON}The input order is \[word, label\]",
        rf"{PYTHON}The output order is \[__cost_0__\]",
        rf"{GLOG}loading dataprovider reader::process",
        rf"{PYTHON}for training",
        rf"{GLOG}loading dataprovider reader::process",
        rf"{PYTHON}for testing",
        rf"{GLOG}pserver 0 \S+",
        rf"{GLOG}pserver 1 \S+",
        rf"{GLOG}trainer mode: Normal",
        rf"{GLOG}Initing parameters\.\.",
        rf"{GLOG}Init parameters done\.",
    ]
    found = [line for line in lines(job, 0) if not line.startswith("W")]
    for number, pattern in enumerate(expected):
        assert re.fullmatch(pattern, found[number]), f"{found[number]!r} is not {pattern!r}"


@pytest.mark.parametrize("worker", range(WORKERS))
def test_batches_passes_and_tests_are_found_by_a_parser_of_their_time(job: Path, worker: int) -> None:
    log = lines(job, worker)
    batches = [match for line in log if (match := BATCH.fullmatch(line))]
    per_pass = v1demo.TRAIN // WORKERS
    rounds = -(-per_pass // 8)
    assert [int(match[1]) for match in batches] == [*range(PERIOD, rounds + 1, PERIOD)] * PASSES
    assert [int(match[2]) for match in batches] == [8 * n for n in range(PERIOD, rounds + 1, PERIOD)] * PASSES
    assert batches[0][3] == batches[0][4], "the first average is of the same batches as the first current value"
    ends = [match for line in log if (match := PASS.fullmatch(line))]
    assert [(int(m[1]), int(m[2]), int(m[3])) for m in ends] == [(p, rounds, per_pass) for p in range(PASSES)]
    tests = [match for line in log if (match := TEST.fullmatch(line))]
    assert [int(match[1]) for match in tests] == [v1demo.TEST] * PASSES


def test_dots_stand_on_lines_of_their_own_before_each_batch_line(job: Path) -> None:
    log = lines(job, 0)
    places = [number for number, line in enumerate(log) if BATCH.fullmatch(line)]
    assert places and all(log[number - 1] == "." * PERIOD for number in places)


def test_a_test_is_followed_by_the_snapshot_it_belongs_to(job: Path) -> None:
    """The script that chose the best pass of the recommendation demo pairs the two."""
    wanted = [line for line in lines(job, 0) if TEST.fullmatch(line) or SAVING.fullmatch(line)]
    pairs = list(zip(wanted[::2], wanted[1::2], strict=True))
    saved = [SAVING.fullmatch(second) for first, second in pairs if TEST.fullmatch(first)]
    assert [match[1] for match in saved if match] == [f"output/pass-{number:05d}" for number in range(PASSES)]
    assert not any(SAVING.fullmatch(line) for line in lines(job, 1)), "trainer 0 alone saves"


def test_the_warning_of_a_silent_no_op_is_in_the_log(job: Path) -> None:
    assert any(line.startswith("W") and "L2 regularisation has no effect with adam" in line for line in lines(job, 0))


def test_the_server_log_has_the_lines_it_had(job: Path) -> None:
    text = (job / "output" / "node_0" / "server.log").read_text()
    for wanted in ("number of parameterServer instances: 1", "Starting parameterServer[0]"):
        assert wanted in text


def test_job_test_says_what_it_said(job: Path) -> None:
    with contextlib.chdir(job):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "umiak.cli.main", "train", "--job=test", "--config=trainer_config.demo.py"),
                "--init_model_path=./output/pass-00001",
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    (tested,) = (match for line in done.stderr.splitlines() if (match := TESTED.fullmatch(line)))
    last = [match for line in lines(job, 0) if (match := TEST.fullmatch(line))][-1]
    assert (tested[1], tested[2], tested[3]) == ("1", last[1], last[2])
