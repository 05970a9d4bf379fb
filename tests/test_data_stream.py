"""`umiak.data.stream`: every row once per pass, the same batches from anywhere, whatever the files, shards and windows are."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from pyarrow import parquet

from tests.processes import umiak as umiak_command
from umiak.data import Ragged, Shard, stream, train_test_split
from umiak.data.streaming import ranges
from umiak.data.streaming.dealing import Deal
from umiak.data.streaming.places import translated
from umiak.errors import InputError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def table(rows: int, first: int = 0) -> pa.Table:
    ids = np.arange(first, first + rows)
    lists = pa.array([list(range(i % 4)) for i in ids], pa.list_(pa.int64()))
    return pa.table({"id": ids, "x": (ids / 7).astype(np.float32), "list": lists})


def write_parquet(directory: Path, rows: list[int], group: int = 10) -> str:
    directory.mkdir(parents=True, exist_ok=True)
    first = 0
    for number, count in enumerate(rows):
        parquet.write_table(table(count, first), directory / f"part-{number:03}.parquet", row_group_size=group)
        first += count
    return str(directory / "*.parquet")


WHOLE = Shard()


def ids(source: Any, size: int = 7, shard: Shard = WHOLE, seed: int | None = 3, start: int = 0) -> list[list[int]]:
    return [batch["id"].tolist() for batch in source.batches(size, shard, seed, start)]


def flat(batches: list[list[int]]) -> list[int]:
    return [each for batch in batches for each in batch]


@pytest.mark.parametrize("seed", range(12))
def test_every_row_is_in_one_batch_of_one_shard_and_any_batch_can_be_opened(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    files = [draw.choice([1, 3, 25, 40]) for _ in range(draw.randint(1, 5))]
    pattern = write_parquet(tmp_path / "data", files, group=draw.choice([1, 4, 16, 100]))
    count, size = draw.randint(1, 6), draw.randint(1, 9)
    source = stream(pattern, window=draw.choice([1, 5, 20, 1000]))
    shards = [ids(source, size, Shard(number, count), seed) for number in range(count)]
    assert sorted(id_ for shard in shards for id_ in flat(shard)) == list(range(sum(files)))
    lengths = [len(flat(shard)) for shard in shards]
    assert max(lengths) - min(lengths) <= 1
    for number, shard in enumerate(shards):
        assert all(len(batch) == size for batch in shard[:-1])
        start = draw.randint(0, len(shard))
        assert ids(source, size, Shard(number, count), seed, start) == shard[start:]


def test_passes_differ_and_repeat_exactly(tmp_path: Path) -> None:
    pattern = write_parquet(tmp_path / "data", [40, 40])
    first, again, second = (ids(stream(pattern), seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != second
    assert flat(ids(stream(pattern), seed=None)) == list(range(80)), "without a seed rows stay in their order"


def test_to_open_a_shard_anywhere_one_window_is_read(tmp_path: Path) -> None:
    rows = np.full(100, 10)
    for start in range(0, 60, 7):
        deal = Deal(rows, 5, Shard(1, 3), 9, window=40)
        pieces = list(deal.pieces(deal.first_window(start)))
        assert sum(piece.end - piece.begin for piece in pieces) <= 40
        assert deal.batches_before(deal.first_window(start)) <= start


def test_lists_and_fractions_arrive_as_they_were_written(tmp_path: Path) -> None:
    pattern = write_parquet(tmp_path / "data", [30])
    for batch in stream(pattern, window=12).batches(5, Shard(), 4):
        assert isinstance(batch["list"], Ragged)
        assert batch["x"].dtype == np.float32
        for number, id_ in enumerate(batch["id"]):
            begin, end = batch["list"].offsets[number : number + 2]
            assert batch["list"].values[begin:end].tolist() == list(range(id_ % 4))
            assert batch["x"][number] == np.float32(id_ / 7)


def write_text(path: Path, rows: int, first: int = 0) -> None:
    if path.name.startswith("t.tsv"):
        text = "id\tx\n" + "".join(f"{i}\t{i}.5\n" for i in range(first, first + rows))
    elif path.name.startswith("t.csv"):
        text = "id,x\r\n" + "".join(f'{i},"{i}.5"\r\n' for i in range(first, first + rows))
    else:
        text = "".join(json.dumps({"id": i, "x": i + 0.5}) + "\n" for i in range(first, first + rows))
    data = text.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data)
    if path.suffix == ".zst":
        data = pa.compress(data, codec="zstd", asbytes=True)
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.csv.gz", "t.jsonl.zst", "t.tsv.gz"])
def test_text_is_cut_between_lines_and_read_as_it_was_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "CHUNK_BYTES", 100)
    write_text(tmp_path / name, 200)
    source = stream(tmp_path / name, window=16)
    shards = [list(source.batches(6, Shard(number, 3), 5)) for number in range(3)]
    seen = {
        int(i): float(x) for shard in shards for batch in shard for i, x in zip(batch["id"], batch["x"], strict=True)
    }
    assert seen == {i: i + 0.5 for i in range(200)}


def test_a_csv_file_with_line_breaks_in_quotes_is_one_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ranges, "CHUNK_BYTES", 50)
    caplog.set_level("INFO", "umiak.data")
    (tmp_path / "t.csv").write_text("id,said\n" + "".join(f'{i},"a\nb, ""{i}"""\n' for i in range(30)))
    source = stream(tmp_path / "t.csv", parse=lambda record: {"id": record["id"], "n": len(record["said"])})
    assert sorted(flat(ids(source))) == list(range(30))
    assert "is read as one chunk: it has line breaks inside quotes" in caplog.text


def test_lines_of_text_are_parsed_one_by_one_and_may_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "CHUNK_BYTES", 40)
    (tmp_path / "t.txt").write_text("".join(f"{i} ä\n" for i in range(50)) + "50 last")
    source = stream(tmp_path / "t.txt", parse=lambda line: {"id": int(line.split()[0])} if line[0] != "3" else None)
    expected = [i for i in range(51) if not str(i).startswith("3")]
    assert sorted(flat(ids(source, 20))) == expected
    assert flat(ids(source, 20, start=1)) == flat(ids(source, 20)[1:])


def test_a_table_is_parsed_at_once(tmp_path: Path) -> None:
    pattern = write_parquet(tmp_path / "data", [25])
    seen: list[int] = []

    def parse(given: pa.Table) -> dict[str, np.ndarray]:
        seen.append(given.num_rows)
        return {"id": given["id"].to_numpy(), "double": given["id"].to_numpy() * 2}

    batches = list(stream(pattern, ["id"], parse, by="batch").batches(5, Shard(), 1))
    assert sorted(seen) == [5, 10, 10], "whole row groups"
    assert all((batch["double"] == 2 * batch["id"]).all() for batch in batches)
    with pytest.raises(InputError, match=r"returned 1 entries for \d+ rows of .*part-000.parquet"):
        list(stream(pattern, ["id"], lambda given: {"id": np.zeros(1)}, by="batch").batches(5, Shard(), 1))


def test_directories_that_name_a_value_become_a_column(tmp_path: Path) -> None:
    for day in (7, 8):
        write_parquet(tmp_path / f"day={day}" / "hour=1", [5])
    source = stream(tmp_path / "**" / "*.parquet", columns=["id", "day"])
    batches = list(source.batches(10, Shard(), None))
    assert batches[0]["day"].tolist() == [7] * 5 + [8] * 5


def test_whole_numbers_in_one_file_and_fractions_in_another_are_fractions(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x\n1,2\n")
    (tmp_path / "b.csv").write_text("id,x\n2,2.5\n")
    (batch,) = stream(tmp_path / "*.csv").batches(9, Shard(), None)
    assert batch["x"].dtype == np.float32
    (batch,) = stream(tmp_path / "*.csv", columns={"id": float, "x": float}).batches(9, Shard(), None)
    assert batch["id"].dtype == np.float32


def test_what_columns_hold_can_be_said_where_files_look_different(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,hex\n1,12\n")
    (tmp_path / "b.csv").write_text("id,hex\n2,ff\n")
    parse = {"parse": lambda record: {"id": record["id"], "hex": int(record["hex"], 16)}}
    (batch,) = stream(tmp_path / "*.csv", {"id": int, "hex": str}, **parse).batches(9, Shard(), None)
    assert batch["hex"].tolist() == [0x12, 0xFF]


def test_a_share_of_the_rows_is_kept_for_testing_and_stays_the_same(tmp_path: Path) -> None:
    pattern = write_parquet(tmp_path / "data", [700, 1300], group=90)
    train, test = train_test_split(pattern, ["id"], test=0.2, window=100)
    trained = [ids(train, 16, Shard(number, 3), seed=5) for number in range(3)]
    tested = flat(ids(test, 16, seed=None))
    assert sorted(flat(trained[0]) + flat(trained[1]) + flat(trained[2]) + tested) == list(range(2000))
    assert 330 < len(tested) < 470
    assert all(len(batch) == 16 for shard in trained for batch in shard[:-1]), "batches stay whole"
    write_parquet(tmp_path / "data" / "more", [10])
    again = train_test_split([pattern, str(tmp_path / "data" / "more" / "*.parquet")], ["id"], test=0.2).test
    assert set(tested) <= set(flat(ids(again, 16))), "a file that is added moves no row"
    (tmp_path / "t.txt").write_text("".join(f"{i}\n" for i in range(300)))
    parts = train_test_split(tmp_path / "t.txt", parse=lambda line: {"id": int(line)}, test=0.5)
    assert sorted(flat(ids(parts.train)) + flat(ids(parts.test))) == list(range(300))
    with pytest.raises(InputError, match="must be a share between 0 and 1"):
        train_test_split(pattern, test=20)


def test_all_rows_of_a_key_are_for_training_or_all_for_testing(tmp_path: Path) -> None:
    rows = np.arange(3000)
    names = pa.array([f"user {i % 100}" for i in rows])
    for number in range(2):
        part = pa.table({"id": rows, "user": rows % 100 + number, "name": names}).slice(number * 1500, 1500)
        parquet.write_table(part, tmp_path / f"{number}.parquet", row_group_size=200)
    for key in ("user", "name"):
        train, test = train_test_split(tmp_path / "*.parquet", ["id", "user"], test=0.2, key=key)
        trained, tested = (list(each.batches(50, Shard(), 3)) for each in (train, test))
        ids_ = [np.concatenate([batch["id"] for batch in part]) for part in (trained, tested)]
        assert sorted(np.concatenate(ids_).tolist()) == list(range(3000))
        keys = [set((part % 100).tolist()) for part in ids_]
        if key == "user":
            keys = [set(np.concatenate([batch["user"] for batch in part]).tolist()) for part in (trained, tested)]
        assert not keys[0] & keys[1] and 5 <= len(keys[1]) <= 40
    with pytest.raises(InputError, match="has no column 'age', which key= names"):
        next(train_test_split(tmp_path / "*.parquet", ["id"], key="age").test.batches(5, Shard(), 1))


def test_files_to_test_on_can_be_named(tmp_path: Path) -> None:
    pattern = write_parquet(tmp_path / "data", [10, 20, 30])
    train, test = train_test_split(pattern, ["id"], test=str(tmp_path / "data" / "part-002*"))
    assert sorted(flat(ids(train))) == list(range(30)) and sorted(flat(ids(test))) == list(range(30, 60))
    with pytest.raises(InputError, match="none is left to train on"):
        ids(train_test_split(pattern, ["id"], test=pattern).train)


def test_a_damaged_row_group_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(table(4000), path, row_group_size=1000, write_page_checksum=True)
    start = parquet.ParquetFile(path).metadata.row_group(2).column(0).data_page_offset
    data = bytearray(path.read_bytes())
    data[start + 500] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a.parquet: row group 2 is damaged: .*; write the file again"):
        list(stream(path).batches(100, Shard(), None))


def test_files_are_looked_at_once_and_by_whoever_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = write_parquet(tmp_path / "data", [10, 10])
    first = ids(stream(pattern))
    monkeypatch.setattr("umiak.data.streaming.groups.look", lambda file: pytest.fail("it was looked at before"))
    assert ids(stream(pattern)) == first


def test_the_cache_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("umiak.data.streaming.chunks.KEPT", 2)
    for number in range(4):
        ids(stream(write_parquet(tmp_path / f"data-{number}", [3])))
    assert len(list((tmp_path / "cache" / "umiak" / "data").iterdir())) == 4, "two indices with their locks"


def test_training_from_files_gives_the_same_bytes_on_every_run_and_after_a_stop(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    rows = {
        "user": draw.integers(0, 50, 400),
        "item": draw.integers(0, 90, 400),
        "target": draw.random(400, np.float32),
    }
    parquet.write_table(pa.table(rows), tmp_path / "ratings.parquet", row_group_size=64)
    (tmp_path / "config.py").write_text(
        "import torch, umiak\n"
        "class Ratings(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.user, self.item = (umiak.nn.SparseEmbedding(4, std=0.1) for _ in range(2))\n"
        "    def forward(self, batch):\n"
        "        return (self.user(batch['user']) * self.item(batch['item'])).sum(1)\n"
        f"train = umiak.data.stream({str(tmp_path / 'ratings.parquet')!r}, window=100)\n"
        "loss = lambda output, batch: torch.nn.functional.mse_loss(output, batch['target'])\n"
        "config = umiak.Config(Ratings, train, loss, umiak.AdaGrad(lr=0.1), batch_size=16)\n"
    )
    for name, steps in {"one": [["--passes=3"]], "two": [["--passes=1"], ["--passes=3", "--resume"]]}.items():
        for flags in steps:
            umiak_command("train", tmp_path / "config.py", "--workers=2", f"--out={tmp_path / name}", *flags)
    files = [sorted(path.name for path in (tmp_path / name / "pass-00002").iterdir()) for name in ("one", "two")]
    assert files[0] == files[1]
    for name in files[0]:
        one, two = ((tmp_path / run / "pass-00002" / name).read_bytes() for run in ("one", "two"))
        assert one == two, name


def test_a_file_that_changes_under_a_run_is_named(tmp_path: Path) -> None:
    pattern = write_parquet(tmp_path / "data", [10, 10])
    source = stream(pattern, window=10)
    next(source.batches(5, Shard(), None))
    changed = tmp_path / "data" / "part-001.parquet"
    os.utime(changed, ns=(1, 1))
    with pytest.raises(InputError, match=r"part-001.parquet has changed since this run began"):
        list(source.batches(5, Shard(), None))


def cases(tmp_path: Path) -> Iterator[tuple[str, Any]]:
    good = write_parquet(tmp_path / "good", [10])
    yield r"no file matches .*/none/\*.parquet; there is no directory", lambda: stream(tmp_path / "none" / "*.parquet")
    yield r"no file matches .*; .*good holds part-000.parquet", lambda: stream(tmp_path / "good" / "*.csv")
    yield r"has no column 'price', which columns= names; it has id, x, list", lambda: stream(good, ["price"])
    yield "was given an empty list", lambda: stream([])
    yield "files of several kinds", lambda: stream(["a.csv", "b.parquet"])
    yield "cannot tell the format of a.doc", lambda: stream("a.doc")
    yield "needs parse=", lambda: stream("a.txt")
    yield "must be at least 1 row", lambda: stream(good, window=0)
    yield 'must be "record" or "batch"', lambda: stream(good, by="row")  # type: ignore[arg-type]
    other = tmp_path / "other"
    write_parquet(other, [10])
    parquet.write_table(pa.table({"id": ["x"], "x": [1.0], "list": [[1]]}), other / "z.parquet")
    yield r"column 'id' is int64 in .*part-000.parquet and string in .*z.parquet", lambda: stream(other / "*.parquet")
    words = tmp_path / "words.parquet"
    parquet.write_table(pa.table({"id": ["x", "y"]}), words)
    yield r"words.parquet: column 'id' holds string, not plain numbers; give a parse function", lambda: stream(words)
    empty = tmp_path / "null.parquet"
    parquet.write_table(pa.table({"id": [1, None]}), empty)
    yield r"null.parquet: column 'id' has empty cells", lambda: stream(empty)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(Path(good.replace("*", "part-000")).read_bytes()[:-20])
    yield r"cannot read .*broken.parquet as Parquet: ", lambda: stream(broken)
    (tmp_path / "bad.csv").write_text("id\n" + "1\n" * 5 + "one\n")
    yield r"bad.csv: column 'id' holds string|bad.csv, bytes", lambda: stream(tmp_path / "bad.csv")
    (tmp_path / "ids.csv").write_text("id\n1\none\n")
    yield r"ids.csv, bytes 3 to \d+: .*'one'", lambda: stream(tmp_path / "ids.csv", columns={"id": int})
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"id\n" + b"1\n" * 9999)[:-9])
    yield r"cut.csv.gz is damaged", lambda: stream(tmp_path / "cut.csv.gz")
    parse = {"parse": lambda record: None}
    yield "left out all 5 rows of a batch", lambda: stream(good, **parse)
    yield r"part-000.parquet, record 1 of chunk 0: .*ZeroDivisionError", lambda: stream(good, parse=lambda r: 1 // 0)


def test_bad_input_is_one_clear_error(tmp_path: Path) -> None:
    for message, make in cases(tmp_path):
        with pytest.raises(InputError, match=message):
            list(make().batches(5, Shard(), None))


def test_a_pattern_stops_at_directories_unless_it_says_otherwise() -> None:
    import re

    def matches(pattern: str, key: str) -> bool:
        return re.fullmatch(translated(pattern), key) is not None

    assert matches("a/*.csv", "a/b.csv")
    assert not matches("a/*.csv", "a/b/c.csv")
    assert matches("a/**/*.csv", "a/b/c/d.csv")
    assert matches("a/**/*.csv", "a/d.csv")
    assert matches("part-[0-3]?.csv", "part-2x.csv")
    assert not matches("part-[!0-3].csv", "part-2.csv")
