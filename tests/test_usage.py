"""Memory and processor time of a worker's processes, as the page shows them."""

from __future__ import annotations

import os
import time

import pytest

from umiak.worker import usage
from umiak.worker.usage import Usage


def test_the_first_report_already_says_how_busy_a_process_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "SECONDS", 0.2)
    measured = Usage(3)
    assert measured.look({"trainer": os.getpid()}) is None, "too early"
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    told = measured.look({"trainer": os.getpid(), "server": 0})
    assert told is not None and told.worker == 3 and set(told.processes) == {"trainer"}
    assert told.processes["trainer"]["cpu"] > 0.02 and told.processes["trainer"]["memory"] > 1 << 20
