"""Runs that stream their data: what they began with stays what they read, and every row is accounted for."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.processes import snapshot_bytes, umiak
from umiak.rundir import checkpoint

CONFIG = """
import torch, umiak


class Ratings(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = (umiak.nn.SparseEmbedding(4, std=0.1) for _ in range(2))

    def forward(self, batch):
        return (self.user(batch["user"]) * self.item(batch["item"])).sum(1)


def parse(record):
    return record if record["user"] % 10 else None


config = umiak.Config(
    model=Ratings,
    train=umiak.data.stream("DATA/*.parquet", window=100, parse=parse),
    test=umiak.data.stream("TEST", window=100),
    loss=lambda output, batch: torch.nn.functional.mse_loss(output, batch["target"]),
    optimizer=umiak.AdaGrad(lr=0.1),
    batch_size=16,
)
"""


def write(path: Path, rows: int, seed: int) -> int:
    """A file of ratings; how many of them the parse function keeps."""
    draw = np.random.default_rng(seed)
    user, item = draw.integers(0, 50, rows), draw.integers(0, 90, rows)
    table = pa.table({"user": user, "item": item, "target": draw.random(rows, np.float32)})
    path.parent.mkdir(exist_ok=True)
    parquet.write_table(table, path, row_group_size=64)
    return int((user % 10 > 0).sum())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "test.parquet", 50, 9)
    text = CONFIG.replace("DATA", str(tmp_path / "data")).replace("TEST", str(tmp_path / "test.parquet"))
    (tmp_path / "config.py").write_text(text)
    return tmp_path


def train(root: Path, out: str, *flags: str, code: int = 0) -> str:
    return umiak("train", root / "config.py", "--workers=3", f"--out={root / out}", *flags, code=code)


def passes(out: Path) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [event for event in events if event["event"] == "pass"]


def test_rows_read_used_and_left_out_are_counted_and_shown_and_the_same_on_every_run(root: Path) -> None:
    kept = write(root / "data" / "a.parquet", 300, 1) + write(root / "data" / "b.parquet", 111, 2)
    assert kept < 411
    told = f"data: 411 rows read, {kept} used, {411 - kept} left out by the parse function"
    assert told in train(root, "one", "--passes=2")
    assert [(each["rows"], each["used"]) for each in passes(root / "one")] == [(411, kept)] * 2
    assert told in (root / "one" / "node_0" / "train.log").read_text()
    train(root, "two", "--passes=1")
    train(root, "two", "--passes=2", "--resume")
    assert [(each["rows"], each["used"]) for each in passes(root / "two")] == [(411, kept)] * 2


def test_a_file_that_is_added_later_changes_nothing_in_a_run_and_one_that_is_altered_is_named(root: Path) -> None:
    write(root / "data" / "a.parquet", 300, 1)
    train(root, "whole", "--passes=2")
    train(root, "parts", "--passes=1")
    (index,) = (root / "parts" / "data-index").glob("train-*.json")
    newest = checkpoint.select(root / "parts")
    assert newest is not None
    named = json.loads((newest / "manifest.json").read_text())["identity"]["the data"]
    assert f"train-{named['train']}.json" == index.name and "test" in named
    write(root / "data" / "b.parquet", 300, 2)
    train(root, "parts", "--passes=2", "--resume")
    assert snapshot_bytes(root / "parts") == snapshot_bytes(root / "whole")
    os.utime(root / "data" / "a.parquet", ns=(1, 1))
    error = train(root, "parts", "--passes=3", "--resume", code=2)
    assert "a.parquet has changed since this run began" in error
    index.unlink()
    assert "is gone: put it back" in train(root, "parts", "--passes=3", "--resume", code=2)
    train(root, "parts", "--passes=1", "--overwrite")
    assert passes(root / "parts")[0]["rows"] == 600, "a new run begins with what is there now"


def test_trainers_without_rows_take_part(root: Path) -> None:
    (root / "config.py").write_text((root / "config.py").read_text().replace(", parse=parse", ""))
    write(root / "data" / "a.parquet", 2, 1)
    train(root, "out", "--passes=2")
    assert [(each["rows"], each["used"]) for each in passes(root / "out")] == [(2, 2)] * 2
