"""Processes and clocks of pods misbehave: one role stops, all are killed at once, a second blow falls during recovery."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import FLAGS, WORKERS
from tests.pods import Pods, job, process
from tests.processes import alive, snapshot_bytes
from umiak.worker.coordinator import SILENCE_SECONDS

FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    with job(tmp_path, WORKERS, *FLAGS, pause=0.15) as started:
        yield started


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        if alive(pid):
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("role", ["trainer", "server"])
def test_a_role_that_stops_for_a_while_only_costs_that_while(
    role: str, pods: Pods, undisturbed: dict[str, bytes]
) -> None:
    pods.start()
    pods.until(lambda: pods.events(0, "checkpoint"))
    with stopped(process(pods, 1, role)):
        time.sleep(SILENCE_SECONDS + 2)
    assert pods.wait() == [0] * WORKERS
    assert pods.events(0, "restart") == []
    assert snapshot_bytes(pods.out) == undisturbed


def test_a_coordinator_that_stops_for_good_is_replaced(pods: Pods, undisturbed: dict[str, bytes]) -> None:
    pods.start()
    pods.until(lambda: pods.events(0, "checkpoint"))
    with stopped(process(pods, 0, "coordinator")):
        assert pods.wait() == [0] * WORKERS
    assert snapshot_bytes(pods.out) == undisturbed


def test_all_pods_killed_at_once_resume_together(pods: Pods, undisturbed: dict[str, bytes]) -> None:
    pods.start()
    pods.until(lambda: pods.events(0, "checkpoint"))
    for index in range(WORKERS):
        pods.kill(index)
    pods.start()
    assert pods.wait() == [0] * WORKERS
    assert snapshot_bytes(pods.out) == undisturbed


@pytest.mark.parametrize("second", ["server", "trainer", "coordinator", "pod"])
def test_a_second_blow_during_recovery_changes_no_byte(second: str, pods: Pods, undisturbed: dict[str, bytes]) -> None:
    """The next generation has been announced, and its processes are just starting."""
    pods.start()
    pods.until(lambda: pods.events(0, "checkpoint"))
    os.kill(process(pods, 1, "trainer"), signal.SIGKILL)
    pods.until(lambda: pods.events(0, "restart"))
    if second == "pod":
        pods.kill(1)
        pods.start(1)
    else:
        pods.until(lambda: _is_there(pods, second))
        os.kill(process(pods, 0, second), signal.SIGKILL)
    assert pods.wait() == [0] * WORKERS
    assert snapshot_bytes(pods.out) == undisturbed


def _is_there(pods: Pods, role: str) -> bool:
    """Whether worker 0 has started the role again; it ends both of a generation before it starts the next."""
    if role == "trainer":
        restart = max(number for number, event in enumerate(pods.events()) if event["event"] == "restart")
        phases = [event for event in pods.events()[restart:] if event["event"] == "phase" and event["worker"] == 0]
        return any(event["phase"] == "training" for event in phases)
    with contextlib.suppress(IndexError):
        return alive(process(pods, 0, role))
    return False


@pytest.mark.parametrize("offset", ["-2h", "+2h"])
def test_a_clock_that_is_hours_off_disturbs_nobody(offset: str, pods: Pods, undisturbed: dict[str, bytes]) -> None:
    assert FAKETIME is not None, "the Debian package faketime is missing"
    wrong = {"LD_PRELOAD": str(FAKETIME), "FAKETIME": offset}
    pods.start(0)
    pods.start(1, **wrong)
    assert pods.wait() == [0] * WORKERS
    assert snapshot_bytes(pods.out) == undisturbed
