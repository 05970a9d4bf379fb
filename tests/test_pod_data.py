"""A pod trains on its own shard of the data: all of it, checked on the way from the volume."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pods import Pods, job
from tests.processes import umiak

SAMPLES = 41
CONFIG = """
import torch
import umiak


def parse(line):
    x, y = line.split()
    return {"x": float(x), "y": float(y)}


class Line(torch.nn.Linear):
    def forward(self, batch):
        return super().forward(batch["x"][:, None])


config = umiak.Config(
    model=lambda: Line(1, 1),
    train=umiak.data.read("data/train.txt", parse),
    test=umiak.data.read("data/test.txt", parse),
    loss=lambda output, batch: torch.nn.functional.mse_loss(output[:, 0], batch["y"]),
    optimizer=umiak.SGD(lr=0.0001),
    batch_size=4,
)
"""


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.list").write_text("data/train.txt\n")
    (source / "train.txt").write_text("".join(f"{number} {2 * number}\n" for number in range(SAMPLES)))
    (source / "test.txt").write_text("1 2\n3 6\n")
    umiak("data", "split", source, tmp_path / "shards", "--shards", "2")
    return tmp_path / "shards"


@pytest.fixture
def pods(tmp_path: Path, shards: Path) -> Iterator[Pods]:
    config = tmp_path / "linear.py"
    config.write_text(CONFIG)
    with job(tmp_path / "job", 2, "--passes=1", config=config) as started:
        started.environment["UMIAK_SHARDS"] = str(shards)
        yield started


def test_every_sample_of_every_shard_is_trained_on(pods: Pods) -> None:
    pods.start()
    assert pods.wait() == [0, 0]
    assert pods.events(0, "pass")[0]["samples"] == SAMPLES
    phases = {event["phase"] for event in pods.events(0, "phase")}
    assert {"staging", "training", "done"} <= phases


def test_a_shard_with_a_wrong_checksum_ends_all_pods_with_2_and_is_named(pods: Pods, shards: Path) -> None:
    damaged = next(shards.glob("1/data/train.txt"))
    damaged.write_text(damaged.read_text().replace("2", "3"))
    pods.start()
    assert pods.wait() == [2, 2]
    message = pods.termination(1)
    assert message["first"] and str(damaged) in message["cause"] and "SHA-256" in message["cause"]
    assert pods.termination(0)["because_of"] == 1
