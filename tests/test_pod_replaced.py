"""A pod that was frozen or cut off, was replaced and comes back: its successor stays, and the job ends with the same bytes."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.links import Link, link_to
from tests.pods import Pods, job
from tests.processes import TINY, alive, descendants, snapshot_bytes, umiak

FLAGS = ("--passes=3", "--checkpoint_minutes=0.01", "--log_period=1")
WORKERS = 2
OLD = 100
"""The index under which a pod that was replaced is kept."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    directory = tmp_path_factory.mktemp("undisturbed")
    (directory / "config.py").write_text(TINY.read_text())
    umiak("train", directory / "config.py", "--workers", str(WORKERS), "--out", directory / "run", *FLAGS)
    return snapshot_bytes(directory / "run")


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    with job(tmp_path, WORKERS, *FLAGS, pause=0.15) as started:
        yield started


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    """All processes of a pod stand still in the block."""
    below = [pid, *descendants(pid)]
    for each in below:
        os.kill(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in reversed(below):
            if alive(each):
                os.kill(each, signal.SIGCONT)


@contextlib.contextmanager
def cut(link: Link) -> Iterator[None]:
    link.cut()
    try:
        yield
    finally:
        link.heal()


def replace(pods: Pods, index: int, **environment: str) -> None:
    """Start a successor while the pod itself may still run, and wait until it is ready itself."""
    old = pods.running.pop(index)
    before = len(pods.events())
    try:
        pods.start(index, UMIAK_PORT=str(pods.port + 5), **environment)
        pods.until(lambda: (index, "ready") in [(e.get("worker"), e.get("phase")) for e in pods.events()[before:]])
    finally:
        pods.running[OLD] = old


def check(pods: Pods, undisturbed: dict[str, bytes]) -> None:
    codes = dict(zip(sorted(pods.running), pods.wait(), strict=True))
    assert codes == {0: 0, 1: 0, OLD: 75}, pods.told()
    assert snapshot_bytes(pods.out) == undisturbed


def test_a_frozen_worker_does_not_evict_its_successor(pods: Pods, undisturbed: dict[str, bytes]) -> None:
    pods.start()
    pods.until(lambda: pods.rounds() > 2)
    with frozen(pods.running[1].pid):
        pods.until(lambda: pods.events(0, "restart"))
        assert "silent" in pods.events(0, "restart")[0]["cause"]
        replace(pods, 1)
    check(pods, undisturbed)
    assert len(pods.events(0, "restart")) == 1, "the job restarted because the old pod came back"
    assert "another process took the place of worker 1" in pods.termination(1)["cause"]


def test_a_worker_whose_link_heals_does_not_evict_its_successor(pods: Pods, undisturbed: dict[str, bytes]) -> None:
    with link_to(pods.port) as link:
        pods.start(0)
        pods.start(1, UMIAK_COORDINATOR=f"127.0.0.1:{link.port}")
        pods.until(lambda: pods.rounds() > 2)
        with cut(link):
            pods.until(lambda: pods.events(0, "restart"))
            replace(pods, 1)
        check(pods, undisturbed)
    assert len(pods.events(0, "restart")) == 1, "the job restarted because the old pod came back"


def lead_elsewhere(pods: Pods, link: Link) -> None:
    """The name of worker 0 now leads to its successor, which has an address of its own."""
    link.target = pods.port + 7
    replace(pods, 0, UMIAK_COORDINATOR=f"127.0.0.1:{link.target}")


def test_a_frozen_pod_of_the_coordinator_does_not_take_the_job_back(pods: Pods, undisturbed: dict[str, bytes]) -> None:
    with link_to(pods.port) as link:
        pods.start(0)
        pods.start(1, UMIAK_COORDINATOR=f"127.0.0.1:{link.port}")
        pods.until(lambda: pods.rounds() > 2)
        with frozen(pods.running[0].pid):
            pods.until(lambda: "coordinator is gone" in pods.log(1).read_text())
            lead_elsewhere(pods, link)
        check(pods, undisturbed)
    assert pods.log(1).read_text().count("coordinator is gone") == 1, "the second coordinator was evicted"


def test_a_pod_of_the_coordinator_whose_link_heals_does_not_take_the_job_back(
    pods: Pods, undisturbed: dict[str, bytes]
) -> None:
    with link_to(pods.port) as link:
        pods.start(0)
        pods.start(1, UMIAK_COORDINATOR=f"127.0.0.1:{link.port}")
        pods.until(lambda: pods.rounds() > 2)
        with cut(link):
            pods.until(lambda: "coordinator is gone" in pods.log(1).read_text())
            lead_elsewhere(pods, link)
        check(pods, undisturbed)
    assert "taken" in pods.termination(0)["cause"]
