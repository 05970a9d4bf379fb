"""A service's piece of a checkpoint: written whole, restored by any service, also when their number has changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from umiak.errors import InputError
from umiak.files import Piece, Stream, Tensors, read_tensors, write_tensors
from umiak.pserver.optimizers import Clock
from umiak.pserver.placement import owned_by
from umiak.pserver.service import Service
from umiak.pserver.table import Table

SNAPSHOT_HEADER = 16


def write(directory: Path, service: Service, blobs: dict[int, np.ndarray]) -> dict[str, Any]:
    """Write everything this service holds, and the trainers' own state where it was given; the piece for the manifest."""
    tensors: dict[str, np.ndarray | Stream] = {f"trainer-{trainer}": blob for trainer, blob in sorted(blobs.items())}
    tensors |= {f"dense/{key}": value for key, value in service.dense.state().items()}
    for table in service.tables:
        tensors |= _table_tensors(table)
    state = {"clock": json.dumps(service.clock), "round": str(service.round)}
    return asdict(write_tensors(directory / f"service-{service.spec.index}.safetensors", tensors, state))


def _table_tensors(table: Table) -> dict[str, np.ndarray | Stream]:
    count = table.stats().rows
    ids, touches, passes = table.export_waiting()
    parts: dict[str, np.ndarray | Stream] = {
        f"table/{table.name}/ids": Stream(np.dtype(np.int64), (count,), (chunk.ids for chunk in table.export())),
        f"table/{table.name}/passes": Stream(np.dtype(np.int32), (count,), (_int32(c.passes) for c in table.export())),
        f"table/{table.name}/rows": Stream(
            np.dtype(np.float32), (count, table.width), (chunk.rows for chunk in table.export())
        ),
    }
    if ids.size:
        parts[f"table/{table.name}/waiting"] = np.stack([ids, touches.astype(np.int64), passes.astype(np.int64)])
    return parts


def _int32(array: np.ndarray) -> np.ndarray:
    return array.astype(np.int32, copy=False)


def write_open_tables(directory: Path, service: Service) -> list[dict[str, Any]]:
    """Write the tables without a vocabulary, values only, as sorted ids and rows; the pieces, each with its table."""
    pieces = []
    for table in service.tables:
        if table.vocab is not None:
            continue
        count = table.stats().rows
        tensors: dict[str, np.ndarray | Stream] = {
            "ids": Stream(np.dtype(np.int64), (count,), (chunk.ids for chunk in table.export())),
            "rows": Stream(np.dtype(np.float32), (count, table.dim), _values(table)),
        }
        path = directory / f"{table.name}.service-{service.spec.index}.safetensors"
        pieces.append({"table": table.name, **asdict(write_tensors(path, tensors, {"table": table.name}))})
    return pieces


def _values(table: Table) -> Iterator[np.ndarray]:
    for chunk in table.export():
        out = np.empty((chunk.ids.size, table.dim), np.float32)
        table.peek(chunk.ids, out)
        yield out


def restore(service: Service, source: dict[str, Any]) -> None:
    """Take up a checkpoint or a snapshot. With `goes_on`, the clock too: the same run continues."""
    directory = Path(source["directory"])
    if source["kind"] == "snapshot":
        for table in service.tables:
            _restore_snapshot(service, table, directory, source.get("missing", "fail"))
        return
    manifest = json.loads((directory / "manifest.json").read_text())
    pieces = [Piece(**piece) for piece in manifest["pieces"]]
    own_piece = source["goes_on"] and len(pieces) == service.spec.services
    wanted = [pieces[service.spec.index]] if own_piece else pieces
    dense: dict[str, np.ndarray] = {}
    missing = {table.name for table in service.tables}
    for piece in wanted:
        read = read_tensors(directory / piece.name, piece)
        dense |= {name.removeprefix("dense/"): a for name, a in read.arrays.items() if name.startswith("dense/")}
        for table in service.tables:
            if f"table/{table.name}/ids" in read.arrays:
                _restore_table(service, table, read, source["goes_on"], owns_all=own_piece)
                missing.discard(table.name)
        clock = Clock(*json.loads(read.metadata["clock"]))
        service.clock = clock if source["goes_on"] else Clock(clock.step, 0, service.spec.start_pass, clock.step)
        service.round = int(read.metadata["round"]) if source["goes_on"] else 0
    if missing:
        raise InputError(f"the checkpoint {directory} has no table {min(missing)!r}: it is of another model")
    service.dense.restore(dense)


def _restore_table(service: Service, table: Table, read: Tensors, goes_on: bool, owns_all: bool) -> None:
    prefix = f"table/{table.name}/"
    ids, rows, passes = (read.arrays[prefix + part] for part in ("ids", "rows", "passes"))
    waiting = read.arrays.get(f"{prefix}waiting", np.empty((3, 0), np.int64))
    if not goes_on:  # a new run counts its own passes
        passes[:] = waiting[2] = service.spec.start_pass
    if not owns_all:
        mine = owned_by(ids, service.spec.row_service, service.spec.row_services)
        ids, rows, passes = ids[mine], rows[mine], passes[mine]
        waiting = np.ascontiguousarray(
            waiting[:, owned_by(waiting[0].copy(), service.spec.row_service, service.spec.row_services)]
        )
    table.reserve(table.stats().rows + ids.size)
    table.restore(ids, rows, passes)
    if waiting.size:
        table.restore_waiting(*waiting)


def _restore_snapshot(service: Service, table: Table, directory: Path, missing: str) -> None:
    """Values only: the state of each row is that of a new one. A file that may be missing leaves rows random or zero."""
    model = directory / "model.json"
    # A snapshot of 2016 has no model.json, and no open tables either.
    described = json.loads(model.read_text())["tables"].get(table.name) if model.exists() else None
    if described is not None and described["vocab"] is None:
        for piece in described["files"]:
            checked = Piece(piece["name"], piece["bytes"], piece["sha256"])
            arrays = read_tensors(directory / piece["name"], checked).arrays
            mine = owned_by(arrays["ids"], service.spec.row_service, service.spec.row_services)
            table.set_values(arrays["ids"][mine], arrays["rows"][mine], service.spec.start_pass)
        return
    assert table.vocab is not None
    ids = np.arange(table.vocab)
    ids = ids[owned_by(ids, service.spec.row_service, service.spec.row_services)]
    if missing != "fail" and not (directory / table.name).exists():
        if missing == "zero":
            table.set_values(ids, np.zeros((ids.size, table.dim), np.float32), service.spec.start_pass)
        return
    values = np.memmap(directory / table.name, "<f4", "r", SNAPSHOT_HEADER).reshape(-1, table.dim)
    table.set_values(ids, np.ascontiguousarray(values[ids]), service.spec.start_pass)
