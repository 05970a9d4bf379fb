"""Log lines keep the form that scripts of 2016 parse."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from umiak import files, logs
from umiak.errors import InputError, RetryError


def test_batch_line_is_the_one_scripts_parse() -> None:
    error = {"classification_error_evaluator": 0.304297}
    assert logs.batch_line(20, 2560, 0.6287612, 0.6287612, error, error) == (
        " Batch=20 samples=2560 AvgCost=0.628761 CurrentCost=0.628761 "
        "Eval: classification_error_evaluator=0.304297  CurrentEval: classification_error_evaluator=0.304297 "
    )


def test_pass_and_test_lines_without_evaluators_end_in_a_space() -> None:
    assert logs.pass_line(0, 565, 902826, 3.5236812, {}) == " Pass=0 Batch=565 samples=902826 AvgCost=3.52368 Eval: "
    assert logs.test_line(97383, 3.3215512, {}) == " Test samples=97383 cost=3.32155 Eval: "
    assert logs.tested_line(0, 24999, 0.2804711, {"e": 0.1}) == " Pass=0 samples=24999 AvgCost=0.280471 Eval: e=0.1 "


def test_the_recommendation_demos_evaluation_finds_cost_and_snapshot() -> None:
    """Its script pairs `Test … cost=` with the next `pass-NNNNN`."""
    log = "\n".join([logs.test_line(97383, 3.06949, {}), logs.saving_line(Path("./output/pass-00009"))])
    found = re.search(r"Test samples=\d+ cost=([0-9.]+)[\s\S]*?pass-(\d+)", log)
    assert found is not None
    assert found.groups() == ("3.06949", "00009")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.1"), (1234567.0, "1.23457e+06"), (0.0000123456789, "1.23457e-05"), (3.0, "3"), (float("nan"), "nan")],
)
def test_numbers_have_six_significant_digits_like_a_cpp_stream(value: float, text: str) -> None:
    assert logs.number(value) == text


def test_stats_line_is_in_columns() -> None:
    line = logs.stats_line("_fc.w0", 0.5, 1.25, 1e-05, 0.001)
    assert line.startswith("_fc.w0               avg_abs_val=0.5         max_val=1.25 ")


def test_lines_of_a_log_file_have_the_form_of_glog(tmp_path: Path) -> None:
    path = tmp_path / "node_0" / "train.log"
    stream = logs.setup(path)
    logging.getLogger("umiak.trainer").info(" Batch=%d", 20)
    stream.write("..\n")
    logging.getLogger("umiak.trainer").warning("slow")
    first, dots, second = path.read_text().splitlines()
    thread = f"{threading.get_native_id():5d}"
    assert re.fullmatch(rf"I\d{{4}} \d\d:\d\d:\d\d\.\d{{6}} {thread} test_logs\.py:\d+\]  Batch=20", first)
    assert dots == ".."
    assert second.startswith("W")
    assert second.endswith("] slow")


def test_a_restarted_worker_appends_to_its_log(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    for text in ("first", "second"):
        logs.setup(path)
        logging.getLogger("umiak").info(text)
    assert [line.rpartition(" ")[2] for line in path.read_text().splitlines()] == ["first", "second"]


def test_a_full_disk_does_not_end_training_through_its_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    logs.setup(Path("/dev/full"))
    logging.getLogger("umiak").info("lost")
    logs.setup(tmp_path / "train.log")
    assert capfd.readouterr().err == ""


def test_an_unwritable_log_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write the log .*train\.log"):
        logs.setup(tmp_path / "file" / "train.log")


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    """What a test sets up is taken down again: a thread would write to a file that is gone."""
    yield logging.getLogger("umiak.test")
    logger = logging.getLogger("umiak")
    for handler in list(logger.handlers):
        logger.removeHandler(handler)


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A file that takes some 64 KB and then nothing until somebody reads: a volume that hangs, and where it is heard again."""
    path = tmp_path / "job.log"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield path, reader
    os.close(reader)


def read_until(reader: int, text: str) -> str:
    found = b""
    deadline = time.monotonic() + 20
    while text.encode() not in found:
        assert time.monotonic() < deadline, f"{text!r} does not come"
        with contextlib.suppress(BlockingIOError):
            found += os.read(reader, 1 << 16)
    return found.decode()


def test_a_queued_log_has_every_line_in_order(tmp_path: Path, log: logging.Logger) -> None:
    logs.setup(tmp_path / "job.log", queued=True)
    for number in range(1000):
        log.info("line %d.", number)
    logs.flush()
    lines = (tmp_path / "job.log").read_text().splitlines()
    assert [line.partition("] ")[2] for line in lines] == [f"line {number}." for number in range(1000)]


def test_who_logs_is_not_held_up_by_a_volume_that_hangs_and_what_did_not_fit_is_said(
    hanging: tuple[Path, int], log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "QUEUED_LINES", 100)
    path, reader = hanging
    logs.setup(path, queued=True)
    begun = time.monotonic()
    for number in range(5000):
        log.info("%s %d", "x" * 100, number)
    logs.flush(0.2)
    assert time.monotonic() - begun < 5
    assert "lines were lost here" in read_until(reader, "lost here")
    reached = threading.Thread(target=logs.flush, args=(20.0,))
    reached.start()
    while reached.is_alive():
        with contextlib.suppress(BlockingIOError):
            os.read(reader, 1 << 16)
    log.info("heard again")
    read_until(reader, "heard again")


def test_a_fork_logs_although_the_thread_of_its_parent_hangs(
    hanging: tuple[Path, int], log: logging.Logger, tmp_path: Path
) -> None:
    path, reader = hanging
    logs.setup(path, queued=True)
    for number in range(2000):
        log.info("%s %d", "x" * 100, number)
    child = os.fork()
    if child == 0:
        try:
            logs.setup(tmp_path / "train.log")
            log.info("the child is here")
        finally:
            os._exit(0)
    deadline = time.monotonic() + 20
    while not os.waitpid(child, os.WNOHANG)[0]:
        assert time.monotonic() < deadline, "a lock of the parent's thread holds it up"
        time.sleep(0.01)
    assert "the child is here" in (tmp_path / "train.log").read_text()
    read_until(reader, "x 1999\n")


@pytest.mark.parametrize(("times", "outcome"), [(2, None), (10**9, RetryError)])
def test_a_log_on_a_volume_that_fails_is_opened_again_for_a_while_and_then_exits_75(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: logging.Logger, times: int, outcome: type[Exception] | None
) -> None:
    monkeypatch.setattr(files, "STORAGE_SECONDS", 0.5)
    opened, failures = Path.open, iter(range(times))

    def fails(path: Path, *args: Any, **options: Any) -> Any:
        if path.name == "train.log" and next(failures, None) is not None:
            raise OSError(errno.ESTALE, "Stale file handle")
        return opened(path, *args, **options)

    monkeypatch.setattr(Path, "open", fails)
    with pytest.raises(outcome, match=r"train\.log") if outcome else contextlib.nullcontext():
        logs.setup(tmp_path / "train.log")
