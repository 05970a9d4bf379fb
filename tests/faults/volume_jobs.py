"""Jobs on a volume that misbehaves, and what tests ask of them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.faults.conftest import FLAGS, WORKERS
from tests.faults.faulty import FaultyVolume
from tests.pods import Pods, process
from tests.processes import TINY


def restarts(pods: Pods) -> list[str]:
    return [event["cause"] for event in pods.events(0, "restart")]


def lost_coordinators(pods: Pods) -> list[str]:
    """What pods said when they took the coordinator for gone."""
    lines = [line for index in range(WORKERS) for line in pods.log(index).read_text().splitlines()]
    return [line for line in lines if "coordinator is gone" in line]


def first_round_after_restart(pods: Pods) -> int:
    events = pods.events()
    restart = next(number for number, event in enumerate(events) if event["event"] == "restart")
    return int(next(event["round"] for event in events[restart:] if event["event"] == "round"))


def kill_a_trainer(pods: Pods, volume: FaultyVolume) -> None:
    """And wait until the checkpoint that all must read again has met the volume's fault."""
    met = volume.met()
    os.kill(process(pods, 1, "trainer"), signal.SIGKILL)
    pods.until(lambda: restarts(pods) and volume.met() > met)


def local_job(config: Path, out: Path) -> tuple[str | Path, ...]:
    config.write_text(TINY.read_text())
    return ("train", config, "--workers", str(WORKERS), "--out", out, *FLAGS)
