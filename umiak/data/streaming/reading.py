"""A piece of a chunk becomes rows of a batch: read, turned into columns, or parsed by the user's function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from umiak.data.columns import Columns, gather
from umiak.data.parquet import column_of
from umiak.data.streaming import groups, ranges
from umiak.data.streaming.cache import Cache
from umiak.data.streaming.chunks import Index
from umiak.data.streaming.dealing import Piece
from umiak.data.streaming.parts import Chosen, Part
from umiak.data.streaming.places import S3, File, check_unchanged
from umiak.data.usercode import call
from umiak.errors import InputError

By = Literal["record", "batch"]
Parse = Callable[[Any], Mapping[str, Any] | None]
Types = Mapping[str, type]
FETCHES = 8
"""Chunks that are fetched at once from S3."""


@dataclass(frozen=True)
class Rows:
    """Rows of a chunk or a window, of which some may have been left out by the user's function."""

    columns: Columns | None
    """Those that are left; None where none is."""
    place: np.ndarray | None
    """For each row where it stands in `columns`, or -1; None where no row was left out, and each stands in its place."""

    def __len__(self) -> int:
        return len(self.place) if self.place is not None else 0 if self.columns is None else len(self.columns)

    @property
    def kept(self) -> np.ndarray:
        """The numbers of the rows that were not left out."""
        return np.arange(len(self)) if self.place is None else np.flatnonzero(self.place >= 0)

    @classmethod
    def gathered(cls, parts: Sequence[Rows], order: np.ndarray) -> Rows:
        """The rows of all parts in this order. All at once: batch after batch, it would take three times as long."""
        columns = [part.columns for part in parts if part.columns is not None]
        if all(part.place is None for part in parts):
            return cls(Columns.gathered(columns, order) if columns else None, None)
        places, used = [], 0
        for part in parts:
            place = np.arange(len(part)) if part.place is None else part.place
            places.append(np.where(place < 0, -1, place + used))
            used += 0 if part.columns is None else len(part.columns)
        place = np.concatenate(places)[order]
        kept = place >= 0
        if not kept.any():
            return cls(None, place)
        return cls(Columns.gathered(columns, place[kept]), np.where(kept, np.cumsum(kept) - 1, -1))

    def cut(self, begin: int, end: int) -> Rows:
        if self.place is None and self.columns is not None:
            return Rows(self.columns.run(begin, min(end, len(self))), None)
        place = np.empty(0, np.int64) if self.place is None else self.place[begin:end]
        kept = place[place >= 0]
        if self.columns is None or not kept.size:
            return Rows(None, np.full(len(place), -1))
        # What is left out has no place in between, so the rest stays in one run.
        first = int(kept[0])
        run = self.columns.run(first, first + kept.size)
        return Rows(run, np.where(place < 0, -1, place - first))

    def batch(self, begin: int, end: int) -> dict[str, Any]:
        """The batch of the rows from `begin` to `end`, without those that were left out."""
        run = self.cut(begin, end)
        if run.columns is None:
            raise InputError(
                f"the parse function left out all {len(run)} rows of a batch: use a larger batch, or filter the files beforehand"
            )
        return run.columns.batch()


@dataclass(frozen=True)
class How:
    """What becomes of rows: which columns are wanted, and the user's function, of a record or of a table."""

    columns: Sequence[str] | Types | None = None
    parse: Parse | None = None
    by: By = "record"

    @property
    def leaves_out(self) -> bool:
        """Whether a row may be left out."""
        return self.parse is not None and self.by == "record"


class Reader:
    """Reads pieces of chunks. Keeps the chunk it has read last: the next window often begins in it."""

    def __init__(self, index: Index, how: How, part: Part | None = None, cache: Cache | None = None) -> None:
        self.index, self._parse, self._by = index, how.parse, how.by
        self._columns = None if how.columns is None else list(how.columns)
        self._types = dict(how.columns) if isinstance(how.columns, Mapping) else {}
        self._cache, self._groups = cache, groups.Groups(cache)
        self._last: tuple[int, Rows] | None = None
        if index.schema:
            self._schema = _with_types(index, self._types)
            self.check_columns(self._columns or (), "columns=")
        if part is not None and part.key is not None:
            if not index.schema:
                raise InputError(f"lines of text have no column {part.key!r} to divide training from test rows by")
            self.check_columns([part.key], "key=")
        self.chosen = Chosen(index, part, self._column_of)

    def read(self, pieces: Sequence[Piece]) -> list[Rows]:
        """The rows of each piece. Chunks are fetched at once where that means waiting, and parsed one after another."""
        last = dict([self._last] if self._last else [])
        wanted = [number for number in dict.fromkeys(piece.chunk for piece in pieces) if number not in last]
        remote = any(self._file(number).path.startswith(S3) for number in wanted)
        with ThreadPoolExecutor(FETCHES, "fetch") as threads:
            fetched = threads.map(self._fetched, wanted) if remote else map(self._fetched, wanted)
            found = last | {
                number: self._rows(number, content) for number, content in zip(wanted, fetched, strict=True)
            }
        self._last = (pieces[-1].chunk, found[pieces[-1].chunk])
        return [
            rows if piece.end - piece.begin == len(rows) else rows.cut(piece.begin, piece.end)
            for piece, rows in ((piece, found[piece.chunk]) for piece in pieces)
        ]

    def rows(self, number: int) -> Rows:
        """All rows of a chunk that are chosen."""
        return self._rows(number, self._fetched(number))

    def table(self, number: int, columns: Sequence[str] | None = None) -> Any:
        """All rows of a chunk, with these columns; without any, those that are wanted."""
        chunk, file = self.index.chunks[number], self._file(number)
        columns = columns or self._columns
        if self.index.kind == ".parquet":
            stored = None if columns is None else [name for name in columns if name in self._schema.names]
            table = self._groups.read(file, chunk.begin, stored)
        else:
            where = (chunk.rows, chunk.begin, chunk.end)
            table = ranges.table_of(self.index.kind, self.index.header, file, where, self._schema, self._cache)
        if table.num_rows != chunk.rows:
            raise InputError(f"{file.path} has {table.num_rows} rows where its index has {chunk.rows}: it has changed")
        table = _with_partitions(table, file)
        return table if columns is None else table.select(columns)

    def _file(self, number: int) -> File:
        return self.index.files[self.index.chunks[number].file]

    def _column_of(self, number: int, name: str) -> Any:
        return self.table(number, [name])[name]

    def _fetched(self, number: int) -> Any:
        """The table of a chunk, or its lines: what must be waited for."""
        chunk, file = self.index.chunks[number], self._file(number)
        check_unchanged(file)
        if self.index.kind == ".txt":
            return ranges.lines_of(file, chunk.begin, chunk.end, self._cache)
        return self.table(number)

    def _rows(self, number: int, fetched: Any) -> Rows:
        chunk, file = self.index.chunks[number], self._file(number)
        rows = self.chosen.rows(number)
        if self.index.kind == ".txt":
            return self._parsed([fetched[row] for row in rows], rows, file, chunk.begin)
        table = fetched if rows.size == chunk.rows else fetched.take(rows)
        if self._parse is None:
            return _all(Columns({name: _column(file, name, table) for name in table.column_names}))
        if self._by == "batch":
            return _all(self._batch(table, file))
        return self._parsed(table.to_pylist(), rows, file, chunk.begin)

    def _parsed(self, records: Sequence[Any], rows: np.ndarray, file: File, begin: int) -> Rows:
        assert self._parse is not None
        place = np.full(len(records), -1)
        samples, used = [], 0
        for number, record in enumerate(records):
            where = f"{file.path}, record {rows[number] + 1} of chunk {begin}"
            sample = call(self._parse, record, where)
            if sample is not None:
                samples.append((where, sample))
                place[number] = used
                used += 1
        return Rows(gather(samples) if samples else None, place)

    def _batch(self, table: Any, file: File) -> Columns:
        assert self._parse is not None
        parsed = call(self._parse, table, file.path)
        if not isinstance(parsed, Mapping) or not parsed:
            raise InputError(f'parse with by="batch" must return a dict of arrays, not {type(parsed).__name__}')
        columns = Columns(dict(parsed))
        if len(columns) != table.num_rows:
            raise InputError(
                f'parse with by="batch" returned {len(columns)} entries for {table.num_rows} rows of {file.path}: it must return '
                'one for each; by="record" can leave records out'
            )
        return columns

    def check_columns(self, names: Sequence[str], who: str) -> None:
        known = [*self._schema.names, *self.index.files[0].partitions]
        for name in names:
            if name not in known:
                raise InputError(
                    f"{self.index.files[0].path} has no column {name!r}, which {who} names; it has {', '.join(known)}"
                )


def _with_types(index: Index, types: Types) -> Any:
    """The schema of text, with what the user says of columns. Parquet says what it holds itself."""
    import pyarrow

    schema = index.arrow_schema
    arrow = {int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.string(), bool: pyarrow.bool_()}
    for name, kind in types.items():
        if kind not in arrow:
            raise InputError(f"columns= says that {name!r} holds {kind!r}; write int, float, str or bool")
        if index.kind != ".parquet" and name in schema.names:
            schema = schema.set(schema.names.index(name), pyarrow.field(name, arrow[kind]))
    return schema


def _with_partitions(table: Any, file: File) -> Any:
    """The table with a column for each directory of the form name=value."""
    import pyarrow

    for name, text in file.partitions.items():
        if name not in table.column_names:
            value: int | str = int(text) if text.lstrip("-").isdecimal() else text
            table = table.append_column(name, pyarrow.array([value] * table.num_rows))
    return table


def _column(file: File, name: str, table: Any) -> Any:
    return column_of(file.path, name, _one(table.column(name)))


def _one(column: Any) -> Any:
    """A column in one piece."""
    import pyarrow

    if column.num_chunks == 1:
        return column.chunk(0)  # pyarrow would copy it
    joined = column.combine_chunks()
    return pyarrow.concat_arrays(joined.chunks) if isinstance(joined, pyarrow.ChunkedArray) else joined


def _all(columns: Columns) -> Rows:
    return Rows(columns, None)
