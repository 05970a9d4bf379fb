"""Files as sources: text, CSV, TSV and JSON lines, each also as .gz, and Parquet. The ending of a name says which.

Files are looked for when the first batch is asked for, not when the config is read: a config may be read on a machine
that has no data. Records are numbered through all files in the order of their names, and record i belongs to shard
i % count, so that a trainer parses only its own.
"""

from __future__ import annotations

import csv
import glob
import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from umiak.data import parquet
from umiak.data.columns import Columns
from umiak.data.sources import Kept, Pooled, Samples, stream
from umiak.data.usercode import call
from umiak.errors import InputError
from umiak.spec.config import Shard

Parse = Callable[[Any], Mapping[str, Any] | None]
Records = Iterator[tuple[int, Any]]
"""Pairs of a line (or row) number, counted from 1, and the record."""


def read(
    paths: str | Path | Sequence[str | Path],
    parse: Parse | None = None,
    *,
    header: bool = True,
    pool: int | None = None,
) -> Kept | Pooled:
    """A source of the records of one file, of all that match a pattern, or of a list of either.

    `parse(record)` gives a sample, or None to leave the record out. A record is a line of .txt as str; a row of .csv or
    .tsv as a dict by the header line, or as a list with `header=False`; a value of .jsonl; a row of .parquet as a dict.
    Without `parse`, the records of .jsonl and the columns of .parquet are taken as they are. `pool` is provider()'s.
    """
    listed = [str(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    if not listed:
        raise InputError("read() was given an empty list of files")
    kinds = {_kind(path) for path in listed}
    if parse is None:
        if kinds == {".parquet"} and pool is None:
            return Kept(partial(_parquet_columns, listed))
        if not kinds <= {".jsonl", ".parquet"}:
            raise InputError(f"read({listed[0]!r}) needs a parse function that turns a record into a dict of numbers")
    return stream(partial(_samples, listed, parse or _itself, header), pool)


def _samples(paths: Sequence[str], parse: Parse, header: bool, shard: Shard) -> Samples:
    number = 0
    for path in _found(paths):
        for line, record in _records(path, header):
            if number % shard.count == shard.index:
                where = f"{path}:{line}"
                sample = call(parse, record, where)
                if sample is not None or parse is _itself:
                    yield where, sample
            number += 1
    if not number:
        raise InputError(f"no records in {', '.join(paths)}: the files are empty")


def _itself(record: Any) -> Any:
    return record


def _kind(path: str) -> str:
    suffixes = Path(path).suffixes
    kind = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else "".join(suffixes[-1:])
    if kind not in _FORMATS and not path.endswith(".parquet"):
        known = ", ".join(_FORMATS)
        raise InputError(
            f"cannot tell the format of {path} by its name; read() knows {known}, all also .gz, and .parquet"
        )
    return kind


def _found(paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        if Path(path).is_file():
            yield path
            continue
        # Path.glob refuses absolute patterns.
        matches = sorted(match for match in glob.glob(path) if Path(match).is_file())  # noqa: PTH207
        if not matches:
            kind = "no file matches" if glob.has_magic(path) else "there is no file"
            raise InputError(
                f"{kind} {path}, seen from {Path.cwd()}; put the data there or correct the path in the config"
            )
        yield from matches


def _records(path: str, header: bool) -> Records:
    kind = _kind(path)
    if kind == ".parquet":
        yield from parquet.rows(path)
        return
    line = 0
    try:
        with _text(path, newline="" if kind in (".csv", ".tsv") else None) as file:
            for line, record in _FORMATS[kind](path, file, header):
                yield line, record
    except UnicodeDecodeError:
        raise InputError(
            f"{path} is not UTF-8 near line {line + 1}; convert it, for example with iconv -t UTF-8"
        ) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is damaged near line {line + 1}: {error}; fetch it again") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None


def _text(path: str, newline: str | None) -> IO[str]:
    if path.endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8", newline=newline)
    return Path(path).open(encoding="utf-8", newline=newline)


def _lines(path: str, file: IO[str], header: bool) -> Records:
    for number, line in enumerate(file, 1):
        yield number, line.rstrip("\n")


def _json_lines(path: str, file: IO[str], header: bool) -> Records:
    for number, line in enumerate(file, 1):
        if not line.isspace():
            try:
                value = json.loads(line)
            except ValueError as error:
                raise InputError(f"{path}:{number} is not JSON: {error}") from None
            yield number, value


def _csv_rows(path: str, file: IO[str], header: bool) -> Records:
    yield from _rows(path, csv.reader(file, strict=True), header)


def _tsv_rows(path: str, file: IO[str], header: bool) -> Records:
    # Quotes are ordinary characters in TSV: text such as 5" would otherwise swallow the lines after it.
    yield from _rows(path, csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE), header)


def _rows(path: str, rows: Any, header: bool) -> Records:
    names: list[str] | None = None
    width = 0
    try:
        for row in rows:
            if not row:
                continue
            width = width or len(row)
            if len(row) != width:
                raise InputError(f"{path}:{rows.line_num} has {len(row)} cells where the first line has {width}")
            if header and names is None:
                names = row
            else:
                yield rows.line_num, dict(zip(names, row, strict=True)) if names else row
    except csv.Error as error:
        raise InputError(f"{path}:{rows.line_num} is not well-formed: {error}") from None


def _parquet_columns(paths: Sequence[str], shard: Shard) -> Columns | None:
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
            raise InputError(f"{path} has other columns than the files before it: {', '.join(parts[-1].names)}")
    if not number:
        raise InputError(f"no rows in {', '.join(paths)}: the files are empty")
    return Columns.concat(parts) if parts else None


_FORMATS: dict[str, Callable[[str, IO[str], bool], Records]] = {
    ".txt": _lines,
    ".csv": _csv_rows,
    ".tsv": _tsv_rows,
    ".jsonl": _json_lines,
}
