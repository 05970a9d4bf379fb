"""Click logs: the Criteo layout, and made-up impressions of its shape."""

from __future__ import annotations

from functools import partial
from math import log1p
from pathlib import Path

import numpy as np
import pytest

from umiak.cli.main import main
from umiak.data import Columns, Shard, ctr
from umiak.data import fetch as fetching
from umiak.errors import InputError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def impression(label: int, counts: list[str], categories: list[str]) -> str:
    return "\t".join([str(label), *counts, *categories]) + "\n"


@pytest.mark.parametrize("name", ["day.txt", "day.tsv"])
def test_criteo_lines_become_numbers(name: str, tmp_path: Path) -> None:
    counts = ["3", "", "-2", *["0"] * 10]
    (tmp_path / name).write_text(
        impression(1, counts, ["00000002", "", *["0000000b"] * 24]) + impression(0, [""] * 13, [""] * 26)
    )
    batch = next(ctr.criteo(tmp_path / name, ids=26 * 11).batches(5, Shard(), None))
    assert batch["label"].tolist() == [1, 0]
    assert batch["dense"][0].tolist() == pytest.approx([log1p(3)] + [0] * 12)
    assert (batch["ids"][0] - np.arange(26) * 11).tolist() == [3, 0] + [2] * 24, "1 + 2 % 10, empty, 1 + 11 % 10"
    assert (batch["ids"][1] - np.arange(26) * 11).tolist() == [0] * 26


def test_a_line_with_too_few_cells_is_named(tmp_path: Path) -> None:
    (tmp_path / "day.txt").write_text(impression(1, ["1"] * 13, ["a"] * 26) + "1\t2\n")
    with pytest.raises(InputError, match=r"day\.txt, bytes 0 to .*Row #2: Expected 40 columns, got 2"):
        list(ctr.criteo(tmp_path / "day.txt").batches(5, Shard(), None))


def test_a_category_that_is_no_number_is_named(tmp_path: Path) -> None:
    (tmp_path / "day.txt").write_text(impression(1, ["1"] * 13, ["xyz"] * 26))
    with pytest.raises(InputError, match=r"day\.txt: .*'xyz' is not a category of up to 8 hexadecimal digits"):
        list(ctr.criteo(tmp_path / "day.txt").batches(5, Shard(), None))


def test_made_up_impressions_are_skewed_and_can_be_learned() -> None:
    table = ctr.synthetic(20_000, seed=1, ids=260_000)
    assert table["ids"].shape == (20_000, 26) and table["dense"].shape == (20_000, 13)
    assert (table["ids"] // 10_000 == np.arange(26)).all(), "each feature has its own range"
    counts = np.sort(np.bincount(table["ids"][:, 0]))[::-1]
    assert counts[0] > 1_000 and np.count_nonzero(counts) > 2_000, "a few frequent ids and a long tail"
    assert 0.2 < table["label"].mean() < 0.5
    hot = np.argsort(-np.bincount(table["ids"].ravel()))[:26]
    other = ctr.synthetic(20_000, seed=2, ids=260_000)

    def rates(data: Columns) -> list[float]:
        return [data["label"][(data["ids"] == number).any(1)].mean() for number in hot]

    assert np.corrcoef(rates(table), rates(other))[0, 1] > 0.9, "an id means the same in every sample of the data"
    assert np.array_equal(ctr.synthetic(100, seed=3)["ids"], ctr.synthetic(100, seed=3)["ids"])


def test_made_up_impressions_are_fetched_as_parquet_and_streamed_as_they_were_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UMIAK_DATA", str(tmp_path / "data"))
    monkeypatch.setitem(fetching._SETS, "ctr", fetching._Set("ctr", (partial(ctr.files, 2500, 300, 26_000),), ""))
    monkeypatch.setattr(ctr, "FILE_ROWS", 1000)
    assert main(["data", "fetch", "ctr"]) == 0
    written = {path.name: path.stat() for path in (tmp_path / "data" / "ctr").glob("*.parquet")}
    assert sorted(written) == ["test-000.parquet", "train-000.parquet", "train-001.parquet", "train-002.parquet"]
    assert {status.st_mtime for status in written.values()} == {fetching.MADE}, "the same index on every machine"
    data = ctr.load()
    made = ctr.synthetic(2500, 0, 26_000)
    (batch,) = data.train.batches(5000, Shard(), None)
    for name in made.names:
        assert batch[name].dtype == made[name].dtype and np.array_equal(batch[name], made[name])
    assert sum(len(batch["label"]) for batch in data.test.batches(99, Shard(), None)) == 300


def test_click_logs_in_a_bucket_are_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UMIAK_DATA", "s3://clicks/2026/")
    assert list(ctr.load().train.paths) == ["s3://clicks/2026/ctr/train-*.parquet"]
    with pytest.raises(InputError, match="is read from a directory"):
        fetching.fetch("reviews")
