"""How a trainer's process tells its parent why it ended."""

from __future__ import annotations

import errno
import time
from pathlib import Path
from typing import TextIO

import pytest

from umiak.worker.child import Report, TrainerChild

pytestmark = pytest.mark.slow


def _end(work) -> tuple[int, str, str]:
    child = TrainerChild(work, Path("/dev/full"), [])
    deadline = time.monotonic() + 30
    while (end := child.poll()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    child.gone()
    return end


def test_a_log_that_cannot_be_written_because_the_disk_is_full_is_no_defect() -> None:
    def work(report: Report, stop: object, dots: TextIO) -> None:
        dots.write("." * 100_000)
        dots.flush()

    code, message, kind = _end(work)
    assert (code, kind) == (2, "")
    assert message.startswith("no space left on the disk while writing /dev/full")


def test_a_volume_that_fails_where_nobody_expects_it_is_no_defect() -> None:
    def work(report: Report, stop: object, dots: TextIO) -> None:
        raise OSError(errno.EIO, "Input/output error", "/volume/tensorboard/events")

    code, message, kind = _end(work)
    assert (code, kind) == (75, "")
    assert message.startswith("cannot write /volume/tensorboard/events: Input/output error")


def test_another_error_names_its_place() -> None:
    def work(report: Report, stop: object, dots: TextIO) -> None:
        raise FileNotFoundError(2, "No such file", "words.txt")

    code, message, kind = _end(work)
    assert (code, kind) == (1, "")
    assert "words.txt" in message and "test_trainer_child.py" in message
