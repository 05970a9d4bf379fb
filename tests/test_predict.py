"""`umiak predict --data`: any files, several workers, killed in the middle: always the same bytes, and never a row too few."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

import umiak as package
from tests.processes import descendants, start, umiak, wait_for, wait_until_gone
from umiak.evaluation.predicting import grouped

CONFIG = """
import os, time
import torch, umiak

PAUSE = float(os.environ.get("UMIAK_TEST_PAUSE", "0"))


class Ratings(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = (umiak.nn.SparseEmbedding(4, std=0.1) for _ in range(2))

    def forward(self, batch):
        if not self.training and PAUSE:
            time.sleep(PAUSE)
        return (self.user(batch["user"]) * self.item(batch["item"])).sum(1)


config = umiak.Config(
    model=Ratings,
    train=umiak.data.stream("DATA/*.parquet", columns=["user", "item", "target"], window=9000),
    loss=lambda output, batch: torch.nn.functional.mse_loss(output, batch["target"]),
    optimizer=umiak.AdaGrad(lr=0.1),
    batch_size=4096,
)
"""
FILE, GROUP = 210_000, 70_000
"""Rows of a file and of a row group. Two groups are more than a part holds (PART_ROWS), so that there are nine parts."""
ROWS = 3 * FILE


def table(first: int, rows: int) -> pa.Table:
    draw = np.random.default_rng(first)
    user, item = draw.integers(0, 50, rows), draw.integers(0, 90, rows)
    name = pa.array([f"row {first + i}" for i in range(rows)])
    return pa.table({"user": user, "item": item, "name": name, "target": draw.random(rows, np.float32)})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with data, a config and a snapshot of it."""
    root = tmp_path_factory.mktemp("trained")
    (root / "data").mkdir()
    for number in range(3):
        parquet.write_table(table(number * 200, 200), root / "data" / f"{number}.parquet", row_group_size=60)
    (root / "config.py").write_text(CONFIG.replace("DATA", str(root / "data")))
    umiak("train", root / "config.py", "--workers=2", "--passes=2", f"--out={root / 'out'}")
    (root / "new").mkdir()
    for number in range(3):  # without the target, as data to predict for are
        new = table(10_000 + number * FILE, FILE).drop_columns(["target"])
        parquet.write_table(new, root / "new" / f"{number}.parquet", row_group_size=GROUP)
    return root


def words(root: Path, output: Path, *more: str) -> list[str]:
    pattern = str(root / "new" / "*.parquet")
    return ["predict", str(root / "out" / "pass-00001"), "--data", pattern, "--output", str(output), *more]


def test_every_row_is_predicted_in_its_place_with_the_columns_to_keep(trained: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    said = umiak(*words(trained, output, "--keep", "name,user", "--workers", "2"))
    assert f"{ROWS:,} rows" in said and str(output) in said
    written = parquet.read_table(output)
    assert written.column_names == ["name", "user", "prediction"]
    read = parquet.read_table(trained / "new")
    assert written["name"].to_pylist() == read["name"].to_pylist()
    model = package.load(trained / "out" / "pass-00001")
    batch = {name: torch.from_numpy(read[name].to_numpy().copy()) for name in ("user", "item")}
    np.testing.assert_allclose(written["prediction"].to_numpy(), model(batch).numpy(), rtol=1e-5, atol=1e-7)
    assert not (tmp_path / "out.parquet.parts").exists()


def test_the_bytes_depend_neither_on_the_workers_nor_on_a_kill(trained: Path, tmp_path: Path) -> None:
    outputs = {number: tmp_path / f"{number}.parquet" for number in (1, 3)}
    for number, output in outputs.items():
        umiak(*words(trained, output, "--keep=name", f"--workers={number}"))
    killed = tmp_path / "killed.parquet"
    command = words(trained, killed, "--keep=name", "--workers=2")
    parts = tmp_path / "killed.parquet.parts"
    process = start(*command, pause=0.05)
    try:
        wait_for(lambda: len(list(parts.glob("0*.parquet"))) >= 3, process)
        workers = descendants(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        wait_until_gone(workers)
    finally:
        process.communicate()
    assert not killed.exists(), "an output is whole or not there"
    done = {path: path.stat().st_mtime_ns for path in parts.glob("0*.parquet")}
    assert 3 <= len(done) < 9
    said = umiak(*command)
    assert f"{ROWS:,} rows" in said
    assert outputs[1].read_bytes() == outputs[3].read_bytes() == killed.read_bytes()


def test_parts_are_neighbours_and_no_chunk_is_forgotten() -> None:
    rows = np.array([5, 5, 30, 1, 1, 1, 20])
    parts = grouped(rows, most=12)
    assert parts == [[0, 1], [2], [3, 4, 5], [6]]
    assert [number for part in parts for number in part] == list(range(7))


def test_outputs_of_several_parts_and_rows_left_out_and_text(trained: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.py"
    config.write_text(
        CONFIG.replace('columns=["user", "item", "target"]', "parse=parse")
        .replace("DATA", str(trained / "data"))
        .replace(
            "    batch_size=4096,\n",
            "    batch_size=7,\n    predict=lambda output: {'a': output, 'b': torch.stack([output] * 2, 1)},\n",
        )
        .replace(
            "config = ",
            "def parse(record):\n"
            "    return {n: record[n] for n in ('user', 'item')} if record['user'] % 3 else None\n\n\nconfig = ",
        )
    )
    lines = "".join(f"{i % 10},{i},x{i}\n" for i in range(40))
    (tmp_path / "new.csv").write_text(f"user,item,name\n{lines}")
    flags = ("--config", config, "--data", tmp_path / "new.csv", "--output", tmp_path / "o.parquet", "--keep", "name")
    said = umiak("predict", trained / "out" / "pass-00001", *flags)
    assert "24 rows, 16 left out by the parse function" in said
    written = parquet.read_table(tmp_path / "o.parquet")
    assert written["name"].to_pylist() == [f"x{i}" for i in range(40) if i % 10 % 3]
    assert [pair[1] for pair in written["b"].to_pylist()] == written["a"].to_pylist()


def test_what_cannot_be_predicted_is_one_line_and_leaves_nothing(trained: Path, tmp_path: Path) -> None:
    snapshot, output, new = trained / "out" / "pass-00001", tmp_path / "o.parquet", trained / "new" / "0.parquet"
    parquet.write_table(pa.table({"user": [1]}), tmp_path / "less.parquet")
    for more, message in [
        (["--data", new, "--output", tmp_path / "o.txt"], "with --data the predictions are Parquet"),
        (["--data", tmp_path / "*.csv", "--output", output], "no file matches"),
        (["--data", new, "--output", output, "--keep", "age"], "has no column 'age', which --keep names"),
        (["--data", tmp_path / "less.parquet", "--output", output], "KeyError: 'item'"),
        (["--data", new, "--output", tmp_path / "none" / "o.parquet"], "there is no directory"),
        (["--output", tmp_path / "lines", "--keep", "name"], "--keep and --workers go with --data"),
    ]:
        assert message in umiak("predict", snapshot, *more, code=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["less.parquet"]
    output.touch()
    assert "exists: choose another --output" in umiak("predict", snapshot, "--data", new, "--output", output, code=2)


def test_parts_of_a_different_prediction_are_not_mixed_in(trained: Path, tmp_path: Path) -> None:
    output = tmp_path / "o.parquet"
    parts = tmp_path / "o.parquet.parts"
    parts.mkdir()
    (parts / "plan.json").write_text('{"index": "of other files"}')
    (parts / "000000.parquet").write_bytes(b"old")
    assert "holds parts of a different prediction" in umiak(*words(trained, output), code=2)
    assert (parts / "000000.parquet").read_bytes() == b"old"
    umiak(*words(trained, output, "--overwrite"))
    assert parquet.read_metadata(output).num_rows == ROWS


def test_a_worker_that_is_killed_ends_the_command_with_75_and_it_continues(trained: Path, tmp_path: Path) -> None:
    output = tmp_path / "o.parquet"
    command = words(trained, output, "--workers=2")
    process = start(*command, pause=0.05)
    wait_for(lambda: list((tmp_path / "o.parquet.parts").glob("0*.parquet")), process)
    workers = descendants(process.pid)
    os.kill(workers[-1], signal.SIGKILL)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 75 and "signal 9 (SIGKILL): run the same command again to continue" in error
    wait_until_gone(workers)
    umiak(*command)
    umiak(*words(trained, tmp_path / "undisturbed.parquet"))
    assert output.read_bytes() == (tmp_path / "undisturbed.parquet").read_bytes()
