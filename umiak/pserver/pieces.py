"""A service's piece of a checkpoint: written whole, restored by any service, also when their number has changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from umiak.errors import DamagedError, InputError
from umiak.files import exists, read_bytes
from umiak.paths import inside
from umiak.pserver.average import Counts
from umiak.pserver.codec import Restore
from umiak.pserver.optimizers import Clock
from umiak.pserver.placement import owned_by
from umiak.pserver.service import Service
from umiak.pserver.table import Table
from umiak.rundir import piece
from umiak.rundir.layout import MANIFEST, MODEL
from umiak.rundir.parameterfile import listed, read_parts
from umiak.rundir.piece import Progress
from umiak.rundir.reader import MISSING_SECONDS
from umiak.rundir.tensorfile import Piece, Stream, TensorFile, read_tensors, write_tensors


def write(directory: Path, service: Service, blobs: dict[int, np.ndarray], forked: bool) -> dict[str, Any]:
    """Write everything this service holds, and the trainers' own state where it was given; the piece for the manifest.

    A forked copy of a server loses its tables by that.
    """
    tensors: dict[str, np.ndarray | Stream] = {
        piece.trainer_key(trainer): blob for trainer, blob in sorted(blobs.items())
    }
    tensors |= {f"{piece.DENSE}{key}": value for key, value in service.dense.state().items()}
    for table in service.tables:
        tensors |= _table_tensors(table, forked)
    average = service.dense.average
    progress = Progress(service.clock, service.round, average.counts if average else None)
    path = directory / piece.file_name(service.spec.index)
    return asdict(write_tensors(path, tensors, progress.encode()))


def _table_tensors(table: Table, forked: bool) -> dict[str, np.ndarray | Stream]:
    lying = table.lying(release=forked)
    ids, touches, passes = table.export_waiting()
    parts: dict[str, np.ndarray | Stream] = {
        piece.table_key(table.name, "ids"): lying.ids,
        piece.table_key(table.name, "passes"): lying.passes,
        piece.table_key(table.name, "rows"): Stream(np.dtype(np.float32), (lying.ids.size, table.width), lying.rows()),
    }
    if ids.size:
        parts[piece.table_key(table.name, "waiting")] = np.stack(
            [ids, touches.astype(np.int64), passes.astype(np.int64)]
        )
    return parts


def write_open_tables(directory: Path, service: Service) -> list[dict[str, Any]]:
    """Write the tables without a vocabulary, values only, as sorted ids and rows; the pieces, each with its table."""
    pieces = []
    for table in service.tables:
        if table.vocab is not None:
            continue
        export = table.export()
        tensors: dict[str, np.ndarray | Stream] = {
            "ids": export.ids,
            "rows": Stream(np.dtype(np.float32), (export.ids.size, table.dim), export.values()),
        }
        path = directory / piece.open_table_name(table.name, service.spec.index)
        pieces.append({"table": table.name, **asdict(write_tensors(path, tensors, {"table": table.name}))})
    return pieces


def restore(service: Service, source: Restore) -> None:
    """Take up a checkpoint or a snapshot. Where the same run continues, the clock too."""
    try:
        _restore(service, source)
    except DamagedError as error:
        if source.continues:
            raise
        raise InputError(
            f"{error}; this run cannot begin with it"
        ) from error  # somebody named it, and no other will do


def _restore(service: Service, source: Restore) -> None:
    directory = Path(source.directory)
    if source.kind == "snapshot":
        for table in service.tables:
            _restore_snapshot(service, table, directory, source.missing)
        return
    pieces = piece.listed_in(inside(directory, MANIFEST))
    own_piece = source.continues and len(pieces) == service.spec.services
    wanted = [pieces[service.spec.index]] if own_piece else pieces
    dense: dict[str, np.ndarray] = {}
    missing = {table.name for table in service.tables}
    for each in wanted:
        with TensorFile(inside(directory, each.name), each, own_piece, MISSING_SECONDS) as file:
            tables = [_RestoredTable(service, table, source.continues, owns_all=own_piece) for table in service.tables]
            for name, parts in file:
                if name.startswith(piece.DENSE):
                    dense[name.removeprefix(piece.DENSE)] = file.whole(name, parts)
                for restored in tables:
                    restored.take(name, file, parts)
        missing -= {restored.table.name for restored in tables if restored.found}
        progress = Progress.decode(file.metadata)
        clock = Clock(*progress.clock)
        service.clock = clock if source.continues else Clock(clock.step, 0, service.spec.start_pass, clock.step)
        service.round = progress.round if source.continues else 0
        if service.dense.average and progress.average is not None:
            service.dense.average.counts = Counts(*progress.average)
    if missing:
        raise InputError(f"the checkpoint {directory} has no table {min(missing)!r}: it belongs to another model")
    service.dense.restore(dense)


class _RestoredTable:
    """Takes a table's arrays as they come from a file: ids and passes first, then rows, a part at a time."""

    def __init__(self, service: Service, table: Table, continues: bool, owns_all: bool) -> None:
        self._service, self.table, self._continues, self._owns_all = service, table, continues, owns_all
        self.found = False
        self._ids = self._passes = np.empty(0, np.int64)

    def take(self, name: str, file: TensorFile, parts: Iterator[np.ndarray]) -> None:
        parts_of = {piece.table_key(self.table.name, part): part for part in ("ids", "passes", "rows", "waiting")}
        part = parts_of.get(name)
        if part == "ids":
            self._ids, self.found = file.whole(name, parts), True
        elif part == "passes":
            self._passes = file.whole(name, parts)
            if not self._continues:  # a new run counts its own passes
                self._passes[:] = self._service.spec.start_pass
        elif part == "rows":
            self._take_rows(parts)
        elif part == "waiting":
            waiting = file.whole(name, parts)
            if not self._continues:
                waiting[2] = self._service.spec.start_pass
            mine = self._mine(np.ascontiguousarray(waiting[0]))
            self.table.restore_waiting(*np.ascontiguousarray(waiting[:, mine]))

    def _take_rows(self, parts: Iterator[np.ndarray]) -> None:
        mine = self._mine(self._ids)
        self.table.reserve(self.table.stats().rows + int(mine.sum()))
        start = 0
        for rows in parts:
            part = slice(start, start + len(rows))
            start += len(rows)
            if self._owns_all:
                self.table.restore(self._ids[part], rows, self._passes[part])
            else:
                some = mine[part]
                self.table.restore(self._ids[part][some], rows[some], self._passes[part][some])
        self._ids = self._passes = np.empty(0, np.int64)

    def _mine(self, ids: np.ndarray) -> np.ndarray:
        if self._owns_all:
            return np.ones(ids.size, np.bool_)
        return owned_by(ids, self._service.spec.row_service, self._service.spec.row_services)


def _restore_snapshot(service: Service, table: Table, directory: Path, missing: str) -> None:
    """Values only: the state of each row is that of a new one. A file that may be missing leaves rows random or zero."""
    # A snapshot of 2016 has no model.json, and no open tables either.
    file = inside(directory, MODEL)
    model = json.loads(read_bytes(file)) if exists(file) else {"tables": {}}
    described = model["tables"].get(table.name)
    if described is not None and described["vocab"] is None:
        for entry in described["files"]:
            arrays = read_tensors(inside(directory, entry["name"]), Piece.of(entry, directory)).arrays
            mine = owned_by(arrays["ids"], service.spec.row_service, service.spec.row_services)
            table.set_values(arrays["ids"][mine], arrays["rows"][mine], service.spec.start_pass)
        return
    assert table.vocab is not None
    path = inside(directory, table.name)
    parts: Iterable[np.ndarray] = ()
    if missing == "fail" or exists(path):
        parts = read_parts(path, table.vocab * table.dim, listed(model, path), line=table.dim)
    elif missing == "zero":
        parts = [np.zeros(table.vocab * table.dim, np.float32)]
    start = 0
    for part in parts:
        rows = part.reshape(-1, table.dim)
        ids = np.arange(start, start + len(rows))
        mine = owned_by(ids, service.spec.row_service, service.spec.row_services)
        table.set_values(ids[mine], rows[mine], service.spec.start_pass)
        start += len(rows)
