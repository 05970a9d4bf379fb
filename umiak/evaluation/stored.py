"""The tables of a snapshot, read from its files: rows by id, without a server. Nothing is created or changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from umiak.errors import DamagedError, InputError
from umiak.pserver.rowinit import RowInit
from umiak.rundir.layout import MODEL
from umiak.rundir.snapshot import Contents
from umiak.rundir.tensorfile import Piece, read_tensors

CHUNK_ROWS = 1 << 16


class WholeTable:
    """A table with a vocabulary: one matrix, mapped into memory, so that only rows that are asked for are read."""

    def __init__(self, contents: Contents, name: str, vocab: int, dim: int) -> None:
        self.name = name
        self.values = contents.parameter(name, vocab * dim, mapped=True).reshape(vocab, dim)

    def take(self, ids: np.ndarray) -> np.ndarray:
        if ids.size and (ids.min() < 0 or ids.max() >= len(self.values)):
            bad = int(ids[(ids < 0) | (ids >= len(self.values))][0])
            raise InputError(f"id {bad} is outside table {self.name!r}, which has num_embeddings={len(self.values)}")
        return np.asarray(self.values[ids], np.float32)


class OpenTable:
    """A table without a vocabulary: rows by id, and for an id that training never met the value it would begin with."""

    def __init__(self, snapshot: Path, name: str, described: Mapping[str, Any], seed: int) -> None:
        self.dim, self._half = described["dim"], described["dtype"] == "float16"
        self._init = RowInit.of(seed, name, described["init"])
        ids, rows = [np.empty(0, np.int64)], [np.empty((0, self.dim), np.float32)]
        for entry in described["files"]:
            try:
                piece = Piece.of(entry, snapshot / MODEL)
                arrays = read_tensors(snapshot / piece.name, piece).arrays
            except DamagedError as error:
                raise InputError(f"table {name!r} of the snapshot cannot be used: {error}") from None
            ids.append(arrays["ids"])
            rows.append(arrays["rows"])
        self._parts = rows
        self._starts = np.cumsum([len(part) for part in rows])
        every = np.concatenate(ids)
        self._order = np.argsort(every)
        self.ids = every[self._order]

    def take(self, ids: np.ndarray) -> np.ndarray:
        out = np.empty((ids.size, self.dim), np.float32)
        self._init.fill(ids, out)
        if self._half:
            out = out.astype(np.float16).astype(np.float32)
        at = np.minimum(np.searchsorted(self.ids, ids), max(len(self.ids) - 1, 0))
        known = self.ids[at] == ids if len(self.ids) else np.zeros(ids.size, bool)
        out[known] = self._rows(self._order[at[known]])
        return out

    def chunks(self) -> Iterator[np.ndarray]:
        """All rows in the order of `ids`."""
        for start in range(0, len(self.ids), CHUNK_ROWS):
            yield self._rows(self._order[start : start + CHUNK_ROWS])

    def _rows(self, numbers: np.ndarray) -> np.ndarray:
        """Rows by their number, counted through all files."""
        out = np.empty((numbers.size, self.dim), np.float32)
        part = np.searchsorted(self._starts, numbers, "right")
        for index in np.unique(part):
            mine = part == index
            out[mine] = self._parts[index][numbers[mine] - self._starts[index - 1]]
        return out


def open_table(contents: Contents, name: str, described: Mapping[str, Any], seed: int) -> WholeTable | OpenTable:
    """A table as model.json describes it."""
    if described["vocab"] is None:
        return OpenTable(contents.snapshot, name, described, seed)
    return WholeTable(contents, name, described["vocab"], described["dim"])


class StoredRows:
    """Gives the SparseEmbedding modules of a model the rows of a snapshot (see umiak/nn/sparse.py, RowSource)."""

    def __init__(self, tables: Mapping[str, WholeTable | OpenTable]) -> None:
        self.tables = tables

    def rows(self, table: str, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        unique, index = np.unique(ids.cpu().numpy(), return_inverse=True)
        values = torch.from_numpy(self.tables[table].take(unique))
        return values.to(ids.device), torch.from_numpy(index.reshape(ids.shape)).to(ids.device)
