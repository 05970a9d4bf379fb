"""Files as sources of samples: which files, whose record is whose, and how a record becomes a sample.

Files are looked for when the first batch is asked for, not when the config is read: a config may be read on a machine
that has no data. Records are numbered through all files in the order of their names, and record i belongs to shard
i % count, so that a trainer parses only its own.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from umiak.data import parquet
from umiak.data.columns import Columns
from umiak.data.formats import kind, records
from umiak.data.shared import Numbered
from umiak.data.sources import Kept, Pooled, Samples, stream
from umiak.data.usercode import call
from umiak.errors import InputError
from umiak.spec.config import Shard

Parse = Callable[[Any], Mapping[str, Any] | None]


def read(
    paths: str | Path | Sequence[str | Path],
    parse: Parse | None = None,
    *,
    header: bool = True,
    pool: int | None = None,
) -> Kept | Pooled:
    """A source of the records of one file, of all files that match a pattern, or of a list of either.

    `parse(record)` returns a sample, or None to skip the record. A record is a line of .txt as a str; a row of .csv or .tsv as a
    dict with the names of the header line, or as a list with `header=False`; a value of .jsonl; a row of .parquet as a dict.
    Without `parse`, the records of .jsonl and the columns of .parquet are used as they are. `pool` is the same as in `provider`.
    """
    listed = [str(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    if not listed:
        raise InputError("read() was given an empty list of files")
    kinds = {kind(path) for path in listed}
    if parse is None:
        if kinds == {".parquet"} and pool is None:
            return Kept(partial(_parquet_columns, listed))
        if not kinds <= {".jsonl", ".parquet"}:
            raise InputError(f"read({listed[0]!r}) needs a parse function that turns a record into a dict of numbers")
    return stream(partial(_samples, listed, parse or _itself, header), pool)


def _samples(paths: Sequence[str], parse: Parse, header: bool, shard: Shard) -> Samples:
    number = 0
    for path in _found(paths):
        for line, record in records(path, header):
            if number % shard.count == shard.index:
                where = f"{path}:{line}"
                sample = call(parse, record, where)
                if sample is not None or parse is _itself:
                    yield number, where, sample
            number += 1
    if not number:
        raise InputError(f"no records in {', '.join(paths)}: the files are empty")


def _itself(record: Any) -> Any:
    return record


def _found(paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        if Path(path).is_file():
            yield path
            continue
        # Path.glob refuses absolute patterns.
        matches = sorted(match for match in glob.glob(path) if Path(match).is_file())  # noqa: PTH207
        if not matches:
            told = "no file matches" if glob.has_magic(path) else "there is no file"
            raise InputError(
                f"{told} {path}, seen from {Path.cwd()}; put the data there or correct the path in the config"
            )
        yield from matches


def _parquet_columns(paths: Sequence[str], shard: Shard) -> Numbered:
    """The columns of all files, without a detour through Python objects."""
    parts: list[Columns] = []
    number = 0
    for path in _found(paths):
        for table in parquet.tables(path):
            mine = np.arange((shard.index - number) % shard.count, len(table), shard.count)
            number += len(table)
            if len(mine):
                parts.append(Columns(table.take(mine)))
        if parts and parts[-1].names != parts[0].names:
            raise InputError(f"{path} has different columns from the files before it: {', '.join(parts[-1].names)}")
    if not number:
        raise InputError(f"no rows in {', '.join(paths)}: the files are empty")
    numbers = np.arange(shard.index, number, shard.count)
    return Numbered(Columns.concat(parts) if parts else None, numbers)
