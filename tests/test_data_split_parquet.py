"""umiak data split --parquet: text becomes Parquet shards, every row in one of them, as verify proves."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from pyarrow import parquet

from tests.processes import umiak
from umiak.data import Shard, shards, stream
from umiak.jobs.data import Split

ROWS = 1000


def write(directory: Path) -> Path:
    directory.mkdir()
    (directory / "a.csv").write_text("id,x,name\n" + "".join(f"{i},{i / 4},n{i}\n" for i in range(ROWS)))
    lines = "".join(f'{{"id": {i}, "x": {i / 4}, "name": "n{i}"}}\n' for i in range(ROWS, ROWS + 7))
    (directory / "b.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (directory / "words.bin").write_bytes(b"whole")
    return directory


def test_text_becomes_parquet_shards_that_together_are_the_source(tmp_path: Path) -> None:
    source, out = write(tmp_path / "source"), tmp_path / "out"
    said = umiak("data", "split", source, out, "--shards", "3", "--header", "--parquet")
    assert f"all {ROWS + 7:,} samples are in 3 shards" in said
    assert sorted(path.name for path in (out / "1" / "data").iterdir()) == ["a.parquet", "b.parquet", "words.bin"]
    assert shards.verify(out).samples == ROWS + 7
    rows = [parquet.read_table(out / str(index) / "data" / "a.parquet").to_pylist() for index in range(3)]
    assert rows[1][0] == {"id": 1, "x": 0.25, "name": "n1"}
    assert sorted(row["id"] for shard in rows for row in shard) == list(range(ROWS))
    again = umiak("data", "split", source, out, "--shards", "3", "--header", "--parquet")
    assert f"all {ROWS + 7:,} samples" in again, "what is whole is left as it is"
    ids = [batch["id"] for batch in stream(out / "0" / "data" / "a.parquet", ["id"]).batches(99, Shard(), None)]
    assert sum(map(len, ids)) == 334
    damaged = out / "2" / "data" / "b.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert "b.parquet has " in umiak("data", "verify", out, code=2)


def test_what_cannot_become_parquet_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name, text, message in [
        ("a.txt", "1\n2\n", "a.txt has lines without columns"),
        ("a.csv", "id\n1\n", "a.csv and a.tsv would both become a.parquet"),
    ]:
        (source / name).write_text(text)
        if name == "a.csv":
            (source / "a.txt").unlink()
            (source / "a.tsv").write_text("id\n1\n")
        error = umiak("data", "split", source, tmp_path / "out", "--shards", "1", "--parquet", code=2)
        assert message in error
    (source / "a.tsv").unlink()
    (source / "train.list").write_text("data/a.csv\n")
    error = umiak("data", "split", source, tmp_path / "out", "--shards", "1", "--parquet", code=2)
    assert "would rename the files" in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("wanted", [False, True])
def test_the_job_on_the_cluster_is_told(wanted: bool) -> None:
    made = Split("s3://clicks", "cut", 3, "claim", "image", parquet=wanted)
    assert ("--parquet" in made.command()) == wanted
