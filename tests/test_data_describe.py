"""`umiak data describe`: what files hold, estimated in one reading, and how shards would share them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from umiak.cli.main import main
from umiak.data.streaming.describing import Distinct, dealt
from umiak.data.streaming.parts import mixed


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("count", [1, 3, 100, 5_000, 400_000])
def test_the_number_of_different_values_is_estimated(count: int) -> None:
    distinct = Distinct()
    for part in np.array_split(np.arange(count, dtype=np.uint64), 3):
        distinct.add(mixed(part))
        distinct.add(mixed(part))
    assert distinct.estimate() == pytest.approx(count, rel=0.06)


def test_shards_share_rows_evenly_and_chunks_as_far_as_they_go() -> None:
    found = dealt(np.array([100, 100, 1, 99]), 4)
    assert [each.rows for each in found] == [75] * 4
    assert sum(each.chunks for each in found) <= 4 + 3, "a border cuts at most one chunk"
    assert [each.rows for each in dealt(np.array([2]), 3)] == [0, 1, 1]


def test_everything_a_column_is_asked_for_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    skewed = np.array([7] * 60 + list(range(100, 140)))
    table = pa.table(
        {
            "item": skewed,
            "price": np.linspace(0.5, 2.0, 100),
            "words": [[i % 5] * (i % 3) for i in range(100)],
            "shop": pa.array([None if i < 10 else "north" for i in range(100)]),
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=30)
    assert (
        main(["data", "describe", str(tmp_path / "*.parquet"), "--shards", "3", "--output", str(tmp_path / "p.png")])
        == 0
    )
    told = capsys.readouterr().out
    lines = {line.split()[0]: line.split() for line in told.splitlines() if line.strip()}
    assert "1 file, " in told and "4 chunks, 100 rows" in told
    assert lines["item"] == ["item", "int64", "0", "41", "7", "139", "7", "60.00%"]
    assert lines["price"][2:6] == ["0", "100", "0.5", "2"]
    assert lines["words"][-1] == "21.21%"
    assert lines["shop"] == ["shop", "string", "10", "1", "north", "north", "north", "100.00%"]
    assert "3 shards: 33 to 34 rows and 2 chunks each; 2 chunks on a border, read by two shards" in told
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_described_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, message in [
        (["a.txt"], "takes files of one kind, and of one that has columns: not .txt"),
        (["a.csv", "b.parquet"], "takes files of one kind"),
        ([str(tmp_path / "*.csv")], "no file matches"),
        (["a.csv", "--shards", "0"], "--shards 0: write at least 1"),
    ]:
        assert main(["data", "describe", *words]) == 2
        assert message in capsys.readouterr().err
