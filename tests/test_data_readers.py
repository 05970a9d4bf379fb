"""Files as sources: every format, compressed and not, and what bad files get."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from umiak.data import Columns, Ragged, Shard, read
from umiak.errors import InputError

WHOLE = Shard()


def write(path: Path, text: str) -> str:
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def values(source: Any, field: str = "x", shard: Shard = WHOLE) -> list[Any]:
    return [value for batch in source.batches(4, shard, None) for value in batch[field].tolist()]


def by_name(row: dict[str, str]) -> dict[str, int]:
    return {"x": int(row["x"]), "size": len(row["text"])}


TEXTS: dict[str, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    "txt": ("1 a\n2 b\r\n3 c", lambda line: {"x": int(line.split()[0])}),
    "csv": ('x,text\n1,"a, b"\n2,"two\nlines"\n\n3,c\n', by_name),
    "tsv": ('x\ttext\n1\t5" disk\n2\tb\n3\tc\n', by_name),
    "jsonl": ('{"x": 1}\n\n{"x": 2}\n{"x": 3}\n', lambda record: record),
}


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("kind", TEXTS)
def test_text_formats(kind: str, ending: str, tmp_path: Path) -> None:
    text, parse = TEXTS[kind]
    path = write(tmp_path / f"part.{kind}{ending}", text)
    assert values(read(path, parse)) == [1, 2, 3]
    assert values(read(path, parse, pool=2)) == [1, 2, 3]


def test_quotes_join_cells_in_csv_and_are_plain_in_tsv(tmp_path: Path) -> None:
    sizes = {
        kind: values(read(write(tmp_path / f"a.{kind}", TEXTS[kind][0]), by_name), "size") for kind in ("csv", "tsv")
    }
    assert sizes == {"csv": [4, 9, 1], "tsv": [7, 1, 1]}


def test_rows_without_a_header_are_lists(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "1\t2\n3\t4\n")
    assert values(read(path, lambda row: {"x": int(row[1])}, header=False)) == [2, 4]


def test_files_are_read_in_the_order_of_their_names_and_shards_run_through_them(tmp_path: Path) -> None:
    for name, numbers in (("b.jsonl", [3, 4]), ("a.jsonl", [0, 1, 2]), ("c.jsonl.gz", [5, 6])):
        write(tmp_path / name, "".join(json.dumps({"x": i}) + "\n" for i in numbers))
    everything = [tmp_path / "*.jsonl", tmp_path / "c.jsonl.gz"]
    assert values(read(everything)) == [0, 1, 2, 3, 4, 5, 6]
    assert [values(read(everything), shard=Shard(i, 3)) for i in range(3)] == [[0, 3, 6], [1, 4], [2, 5]]


def test_parse_leaves_records_out_and_runs_only_for_the_own_shard(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "".join(f"{i}\n" for i in range(10)))
    parsed = []

    def odd(line: str) -> dict[str, int] | None:
        parsed.append(line)
        return {"x": int(line)} if int(line) % 3 else None

    assert values(read(path, odd), shard=Shard(1, 2)) == [1, 5, 7]
    assert parsed == ["1", "3", "5", "7", "9"]


def parquet_file(path: Path, rows: int = 10, row_group: int = 4) -> str:
    lists = [[float(i)] * (i % 3) for i in range(rows)]
    pair = pyarrow.array([[i, -i] for i in range(rows)], pyarrow.list_(pyarrow.int32(), 2))
    table = pyarrow.table({"x": range(rows), "real": np.linspace(0, 1, rows), "list": lists, "pair": pair})
    pyarrow.parquet.write_table(table, path, row_group_size=row_group)
    return str(path)


def test_parquet_columns_are_taken_as_they_are(tmp_path: Path) -> None:
    files = [parquet_file(tmp_path / "a.parquet"), parquet_file(tmp_path / "b.parquet", rows=3)]
    for index in range(3):
        table = Columns(next(read(files).batches(99, Shard(index, 3), None)))
        expected = [*range(10), *range(3)][index::3]
        assert table["x"].tolist() == expected
        assert table["real"].dtype == np.float32
        assert table["pair"].tolist() == [[i, -i] for i in expected]
        assert isinstance(table["list"], Ragged)
        assert table["list"].lengths.tolist() == [i % 3 for i in expected]
        assert table["list"].values.tolist() == [float(i) for i in expected for _ in range(i % 3)]


def test_parquet_rows_go_through_parse_or_a_pool(tmp_path: Path) -> None:
    path = parquet_file(tmp_path / "a.parquet")
    assert values(read(path, lambda row: {"x": row["x"] * 2}), shard=Shard(1, 2)) == [2, 6, 10, 14, 18]
    assert values(read(path, lambda row: {"x": row["x"]}, pool=3)) == list(range(10))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "1\n2\nthree\n", r"a\.txt:3: <lambda> raised ValueError: invalid literal .* at .*test_data_readers"),
        ("a.csv", "x,y\n1,2\n3\n", r"a\.csv:3 has 1 cells where the first line has 2"),
        ("a.csv", 'x,y\n1,"2"3\n', r"a\.csv:2 is not well-formed"),
        ("a.jsonl", '{"x": 1}\n{"x": \n', r"a\.jsonl:2 is not JSON"),
        ("a.txt", "", "no records in .*a.txt: the files are empty"),
        ("a.csv", "x,y\n", "no records in"),
        ("a.parquet", "nonsense", "cannot read .*a.parquet as Parquet"),
        ("a.txt.gz", "plain", "a.txt.gz is damaged near line 1"),
    ],
)
def test_a_bad_file_is_named_with_its_line(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    source = read(tmp_path / name, lambda record: {"x": int(record["x"] if isinstance(record, dict) else record)})
    with pytest.raises(InputError, match=message):
        values(source)


def test_a_sample_that_does_not_fit_names_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"x": 1}\n\n{"x": "no"}\n')
    with pytest.raises(InputError, match=re.escape(f"field 'x' of {path}:3 is str 'no'")):
        values(read(path))
    path = write(tmp_path / "b.jsonl", '{"x": 1}\nnull\n')
    with pytest.raises(InputError, match=re.escape(f"{path}:2 is None; yield a dict")):
        values(read(path))


def test_truncated_gzip_and_foreign_encodings_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"1\n2\n" * 9000)[:-20])
    with pytest.raises(InputError, match=r"a\.txt\.gz is damaged near line \d+"):
        values(read(tmp_path / "a.txt.gz", lambda line: {"x": int(line)}))
    (tmp_path / "b.txt").write_bytes("1\ncafé\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"b\.txt is not UTF-8 near line"):
        values(read(tmp_path / "b.txt", lambda line: {"x": len(line)}))


def test_parquet_damaged_inside_is_told(tmp_path: Path) -> None:
    path = parquet_file(tmp_path / "a.parquet")
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    content[4:200] = b"\xff" * 196
    (tmp_path / "a.parquet").write_bytes(content)
    for source in (read(path), read(path, lambda row: {"x": row["x"]})):
        with pytest.raises(InputError, match=r"cannot read .*a\.parquet as Parquet"):
            values(source)


def test_parquet_that_holds_no_numbers_asks_for_parse(tmp_path: Path) -> None:
    for column, message in ((["a", "b"], "'x' holds string, not plain numbers"), ([1, None], "'x' has empty cells")):
        pyarrow.parquet.write_table(pyarrow.table({"x": column}), tmp_path / "a.parquet")
        with pytest.raises(InputError, match=message):
            values(read(tmp_path / "a.parquet"))


def test_a_config_can_be_read_where_the_data_are_not(tmp_path: Path) -> None:
    source = read(tmp_path / "later.jsonl")
    with pytest.raises(InputError, match=r"there is no file .*later.jsonl, seen from .*; put the data there"):
        values(source)
    write(tmp_path / "later.jsonl", '{"x": 1}\n')
    assert values(source) == [1]
    with pytest.raises(InputError, match=r"no file matches .*\*\.txt"):
        values(read(tmp_path / "*.txt", len))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ("a.xml", "cannot tell the format of a.xml"),
        ("a.parquet.gz", "cannot tell the format"),
        ("data", "cannot tell the format"),
        ([], "empty list of files"),
        ("a.csv", "needs a parse function"),
    ],
)
def test_read_is_refused_at_once(paths: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(paths)
