"""What a set of files holds, chunk by chunk: row groups of Parquet, ranges of bytes of text. Made once per machine and kept.

Text is cut where a line ends, and its rows are counted; so all of it is read once. A compressed file, and a CSV file with a
line break inside quotes, is one chunk, because no part of it can be read alone.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import json
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from umiak.data.streaming import cache, groups, ranges
from umiak.data.streaming.places import File
from umiak.errors import InputError
from umiak.files import atomic

log = logging.getLogger("umiak.data")
VERSION = 1
KEPT = 100
"""Indices that the cache holds at the most."""
THREADS = 16
"""Files that are indexed at once: mostly waiting, for footers of Parquet files in S3."""


class Chunk(NamedTuple):
    file: int
    rows: int
    begin: int
    """Of Parquet the number of the row group; of text the first byte."""
    end: int
    """Of text the byte after the last; of Parquet the size of the row group."""


@dataclass(frozen=True)
class Index:
    kind: str
    header: bool
    files: list[File]
    chunks: list[Chunk]
    schema: str
    """Arrow's schema of all files, serialised; empty for lines of text."""

    @cached_property
    def rows(self) -> np.ndarray:
        """The number of rows of each chunk."""
        return np.array([chunk.rows for chunk in self.chunks], np.int64)

    @cached_property
    def arrow_schema(self) -> Any:
        from pyarrow import ipc, py_buffer

        return ipc.read_schema(py_buffer(base64.b64decode(self.schema)))

    @cached_property
    def digest(self) -> str:
        """Tells this index from all others."""
        return hashlib.sha256(encoded(self)).hexdigest()[:32]


def indexed(kind: str, header: bool, files: Sequence[File]) -> Index:
    """The index of these files, from the cache of this machine if somebody has made it already."""
    key = json.dumps([VERSION, kind, header, [asdict(file) for file in files]])
    path = cache.directory() / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # whoever comes second reads what the first has made
            with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):  # a damaged one is made again
                return decoded(path.read_bytes())
            index = _made(kind, header, list(files))
            with atomic(path) as file:
                file.write(encoded(index))
            _forget_old(path.parent)
            return index
    except OSError as error:
        log.warning(
            "cannot keep the index of the data in %s (%s); it is made again by each trainer", path.parent, error
        )
        return _made(kind, header, list(files))


def _forget_old(directory: Path) -> None:
    """Keep the newest: a file that has changed gets a new index, and nobody asks for the old one."""
    for ending in (".json", ".counts"):
        newest_last = sorted(directory.glob(f"*{ending}"), key=lambda path: path.stat().st_mtime)
        for path in newest_last[:-KEPT]:
            path.unlink(missing_ok=True)
            path.with_suffix(".lock").unlink(missing_ok=True)


def _made(kind: str, header: bool, files: list[File]) -> Index:
    look = groups.look if kind == ".parquet" else ranges.Look(kind, header)
    with ThreadPoolExecutor(THREADS, "index") as threads:
        seen = list(threads.map(look, files))
    schemas = [each.schema for each in seen if each.schema is not None]
    schema = (_agreed if kind == ".parquet" else _widened)(files, schemas) if schemas else None
    chunks = [
        Chunk(number, rows, begin, end) for number, each in enumerate(seen) for rows, begin, end in each.chunks if rows
    ]
    if not chunks:
        raise InputError(f"no rows in {', '.join(file.path for file in files[:3])}: the files are empty")
    for file, each in zip(files, seen, strict=True):
        if each.whole:
            log.info("%s is read as one chunk: %s", file.path, each.whole)
    log.info("data: %d files, %d chunks, %d rows", len(files), len(chunks), sum(chunk.rows for chunk in chunks))
    return Index(kind, header, files, chunks, "" if schema is None else base64.b64encode(schema.serialize()).decode())


def _agreed(files: Sequence[File], schemas: Sequence[Any]) -> Any:
    """The schema of all files; an error names two that differ, and the column."""
    first = schemas[0]
    for file, schema in zip(files, schemas, strict=True):
        for name in dict.fromkeys([*first.names, *schema.names]):
            kinds = [str(each.field(name).type) if name in each.names else "missing" for each in (first, schema)]
            if kinds[0] != kinds[1]:
                raise InputError(
                    f"column {name!r} is {kinds[0]} in {files[0].path} and {kinds[1]} in {file.path}: "
                    "all files need the same columns; write them alike, or choose with columns=[…]"
                )
    return first


def _widened(files: Sequence[File], schemas: Sequence[Any]) -> Any:
    """The schema of text files, whose columns are what they look like: whole numbers and fractions are fractions."""
    import pyarrow

    names = [schema.names for schema in schemas]
    for file, each in zip(files, names, strict=False):
        if set(each) != set(names[0]):
            odd = min(set(each) ^ set(names[0]))
            raise InputError(
                f"column {odd!r} is in only one of {files[0].path} and {file.path}: all files need the same columns"
            )
    return pyarrow.schema([(name, _wide([schema.field(name) for schema in schemas])) for name in names[0]])


def _wide(fields: Sequence[Any]) -> Any:
    """What a column holds that looks like one thing here and another there; text, if these are too different."""
    import pyarrow

    try:
        return pyarrow.unify_schemas([pyarrow.schema([each]) for each in fields], promote_options="permissive").types[0]
    except pyarrow.ArrowException:
        return pyarrow.string()


def encoded(index: Index) -> bytes:
    """As it is kept in a file; the same bytes for the same index."""
    value = {**asdict(index), "chunks": [list(chunk) for chunk in index.chunks]}
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def decoded(content: bytes) -> Index:
    value = json.loads(content)
    files = [File(**file) for file in value["files"]]
    return Index(**{**value, "files": files, "chunks": [Chunk(*chunk) for chunk in value["chunks"]]})
