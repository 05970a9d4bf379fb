"""The rows of a file that is cut into Parquet shards: of Parquet as they are, of text as its columns look."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from umiak.data import formats, parquet
from umiak.errors import InputError

PARQUET = ".parquet"
PACKED = (".gz", ".zst")


def target_name(name: str) -> str:
    """What a file is called where it becomes Parquet: train.csv.gz is train.parquet."""
    path = PurePosixPath(name)
    if path.suffix in PACKED:
        path = path.with_suffix("")
    return str(path.with_suffix(PARQUET))


def check_names(names: tuple[str, ...]) -> None:
    """Refuse files that cannot become Parquet, or would become the same file."""
    seen: dict[str, str] = {}
    for name in names:
        if formats.kind_or_text(name.removesuffix(".zst")) == ".txt":
            raise InputError(f"--parquet: {name} has lines without columns; only .csv, .tsv and .jsonl become Parquet")
        other = seen.setdefault(target_name(name), name)
        if other != name:
            raise InputError(f"--parquet: {other} and {name} would both become {target_name(name)}; rename one of them")


@contextlib.contextmanager
def opened(path: Path, header: bool) -> Iterator[tuple[Any, Iterator[tuple[Any, float]]]]:
    """The schema of a file, and its rows in tables, each with the share of the file that is read by then."""
    if path.suffix == PARQUET:
        with parquet.opened(str(path)) as file:
            yield file.schema_arrow, _batches(file)
    else:
        yield _text(path, header)


def _batches(file: Any) -> Iterator[tuple[Any, float]]:
    done = 0
    for batch in file.iter_batches():
        done += len(batch)
        yield batch, done / max(file.metadata.num_rows, 1)


def _text(path: Path, header: bool) -> tuple[Any, Iterator[tuple[Any, float]]]:
    from umiak.data.streaming.chunks import indexed
    from umiak.data.streaming.places import found
    from umiak.data.streaming.reading import How, Reader

    index = indexed(formats.kind(path.name.removesuffix(".zst")), header, found([str(path)]))
    reader = Reader(index, How())
    # Directories such as day=7 stay in the path of the file, and are no column in it.
    names = index.arrow_schema.names

    def tables() -> Iterator[tuple[Any, float]]:
        for number, chunk in enumerate(index.chunks):
            for batch in reader.table(number, names).to_batches():
                yield batch, chunk.end / max(index.files[0].size, 1)

    return index.arrow_schema, tables()
