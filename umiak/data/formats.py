"""The records of one file: text, CSV, TSV, JSON lines, each also as .gz, and Parquet. The ending of its name says which."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from umiak.data import parquet
from umiak.errors import InputError

Records = Iterator[tuple[int, Any]]
"""Pairs of a line (or row) number, counted from 1, and the record."""


def known(path: str) -> bool:
    """Whether the name says that the file holds samples."""
    return path.endswith(".parquet") or Path(path.removesuffix(".gz")).suffix in _FORMATS


def kind(path: str) -> str:
    """The format a file name (or pattern) stands for: its ending, without .gz."""
    ending = Path(path.removesuffix(".gz")).suffix
    if not known(path):
        formats = ", ".join(_FORMATS)
        raise InputError(
            f"cannot tell the format of {path} by its name; known are {formats}, all also .gz, and .parquet"
        )
    return ending


def kind_or_text(path: str) -> str:
    """The same for a file that somebody said holds samples: without a known ending they are its lines."""
    return kind(path) if known(path) else ".txt"


def records(path: str, header: bool) -> Records:
    """All records; `header` says whether the first line of CSV and TSV names the columns."""
    ending = kind(path)
    if ending == ".parquet":
        return parquet.rows(path)
    return _guarded(path, _FORMATS[ending], header)


def lines(path: str) -> Iterator[tuple[int, str]]:
    """The lines of a text file, whatever its name ends with besides .gz."""
    return _guarded(path, _lines, False)


def _guarded(path: str, parse: Callable[[str, IO[str], bool], Records], header: bool) -> Records:
    line = 0
    try:
        with _text(path) as file:
            for line, record in parse(path, file, header):
                yield line, record
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 near line {line + 1}; convert it, for example with iconv") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is damaged near line {line + 1}: {error}; fetch it again") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None


def binary(path: Path) -> IO[bytes]:
    """A file's bytes, unpacked if its name ends with .gz."""
    if path.suffix == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    return path.open("rb")


def _text(path: str) -> IO[str]:
    # Line ends are kept as they are, because a quoted CSV cell may hold some.
    if path.endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return Path(path).open(encoding="utf-8", newline="")


def _lines(path: str, file: IO[str], header: bool) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(file, 1):
        yield number, line.rstrip("\r\n")


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


_FORMATS: dict[str, Callable[[str, IO[str], bool], Records]] = {
    ".txt": _lines,
    ".csv": _csv_rows,
    ".tsv": _tsv_rows,
    ".jsonl": _json_lines,
}
