"""A model's sparse tables on the trainer: which ids a batch needs, and the rows a forward pass sees.

Ids are found before the forward pass, so that rows travel while the batch before them computes. Which fields of a batch feed
which table is learned from one forward pass on the first batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from umiak.errors import InputError
from umiak.nn.sparse import SparseEmbedding, sparse_tables
from umiak.pserver.cells import outside
from umiak.pserver.placement import merge
from umiak.pserver.protocol import TableSpec
from umiak.trainer.forward import to_device


@dataclass
class Wanted:
    """What one batch needs of one table: unique ids grouped by service, and where each id of a field finds its row."""

    ids: np.ndarray
    offsets: list[int]
    """Service number n holds ids[offsets[n]:offsets[n + 1]]."""
    index: dict[tuple[int, int], Tensor]


@dataclass
class Prepared:
    """A batch that is ready to run: its fields as tensors, its sample count, and what it needs of each table."""

    batch: Mapping[str, Any]
    wanted: list[Wanted]
    samples: int


class Tables:
    """The tables of one model, in the order every service knows them. Gives its modules the rows of the current batch."""

    def __init__(self, model: nn.Module, services: int) -> None:
        self.modules = sparse_tables(model)
        self.specs = [spec_of(name, module) for name, module in self.modules.items()]
        self.services = services
        self.fields: dict[str, tuple[str, ...]] | None = {n: m.fields for n, m in self.modules.items()}
        if not all(self.fields.values()):
            self.fields = None if self.modules else {}
        self._rows: dict[str, Tensor] = {}
        self._wanted: dict[str, Wanted] = {}
        for module in self.modules.values():
            module.source = self

    def learn(
        self,
        batch: Mapping[str, Any],
        run: Callable[[], object],
        initial: Callable[[TableSpec, np.ndarray], np.ndarray],
    ) -> None:
        """Run the model once, with rows at their initial value, to see which fields feed which table."""
        recorder = _Recorder(batch, {spec.name: spec for spec in self.specs}, initial)
        for module in self.modules.values():
            module.source = recorder
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                run()
        finally:
            for module in self.modules.values():
                module.source = self
        self.fields = {name: m.fields or recorder.fields(name) for name, m in self.modules.items()}

    def wanted(self, batch: Mapping[str, Any]) -> list[Wanted]:
        assert self.fields is not None
        return [self._want(spec, batch, self.fields[spec.name]) for spec in self.specs]

    def _want(self, spec: TableSpec, batch: Mapping[str, Any], fields: tuple[str, ...]) -> Wanted:
        tensors = [_ids(batch[field]) for field in fields]
        if not tensors:
            return Wanted(np.empty(0, np.int64), [0] * (self.services + 1), {})
        flat = [tensor.reshape(-1) for tensor in tensors]
        ids, counts, index = merge((torch.cat(flat) if len(flat) > 1 else flat[0]).numpy(), self.services)
        if spec.vocab is not None and (bad := outside(ids, spec.vocab)) >= 0:
            raise InputError(
                f"id {ids[bad]} in field {' or '.join(map(repr, fields))} is outside table {spec.name!r}, "
                f"which declares num_embeddings={spec.vocab}: fix the data or declare more"
            )
        whole = torch.from_numpy(index)
        parts = whole.split([tensor.numel() for tensor in tensors]) if len(tensors) > 1 else [whole]
        return Wanted(ids, _offsets(counts), {_key(t): p.view(t.shape) for t, p in zip(tensors, parts, strict=True)})

    def want_ids(self, number: int, ids: np.ndarray) -> tuple[list[Wanted], np.ndarray]:
        """Want these ids of one table alone; also where each of them will stand among the rows."""
        wanted = self.nothing()
        unique, counts, index = merge(ids, self.services)
        wanted[number] = Wanted(unique, _offsets(counts), {})
        return wanted, index

    def move(
        self, batch: Mapping[str, Any], wanted: list[Wanted], device: torch.device
    ) -> tuple[Mapping[str, Any], list[Wanted]]:
        """The batch and its row positions on the device that computes."""
        if device.type == "cpu":
            return batch, wanted
        moved = {name: to_device(value, device) for name, value in batch.items()}
        keys = {_key(_ids(value)): _key(_ids(moved[name])) for name, value in batch.items()}
        for want in wanted:
            want.index = {keys[key]: index.to(device) for key, index in want.index.items()}
        return moved, wanted

    def not_finite(self) -> list[str]:
        return [name for name, rows in self._rows.items() if not bool(torch.isfinite(rows).all())]

    def nothing(self) -> list[Wanted]:
        return [self._want(spec, {}, ()) for spec in self.specs]

    def bind(self, wanted: list[Wanted], rows: list[np.ndarray], grad: bool, device: torch.device) -> None:
        """Make these the rows of the current batch."""
        for spec, want, values in zip(self.specs, wanted, rows, strict=True):
            self._rows[spec.name] = torch.from_numpy(values).to(device).requires_grad_(grad)
            self._wanted[spec.name] = want

    def gradients(self) -> list[np.ndarray]:
        """The gradient of the current batch's rows, per table; zeros where the loss did not use a table."""
        return [_gradient(self._rows[spec.name]) for spec in self.specs]

    def rows(self, table: str, ids: Tensor) -> tuple[Tensor, Tensor]:
        want, rows = self._wanted[table], self._rows[table]
        index = want.index.get(_key(ids))
        if index is None:
            index = _search(table, want.ids, ids)
        return rows, index if index.shape == ids.shape else index.view(ids.shape)


class _Recorder:
    """Answers lookups with initial rows and remembers which tensors they were for."""

    def __init__(
        self,
        batch: Mapping[str, Any],
        specs: dict[str, TableSpec],
        initial: Callable[[TableSpec, np.ndarray], np.ndarray],
    ) -> None:
        self.specs, self.initial = specs, initial
        self.names = {_key(_ids(value)): name for name, value in batch.items() if _ids(value).dtype == torch.int64}
        self.seen: dict[str, list[str]] = {name: [] for name in specs}

    def rows(self, table: str, ids: Tensor) -> tuple[Tensor, Tensor]:
        name = self.names.get(_key(ids))
        if name is not None and name not in self.seen[table]:
            self.seen[table].append(name)
        if name is None:
            self.seen[table].append("")
        unique, index = torch.unique(ids, return_inverse=True)
        return torch.from_numpy(self.initial(self.specs[table], unique.numpy())), index

    def fields(self, table: str) -> tuple[str, ...]:
        if "" in self.seen[table]:
            raise InputError(
                f"SparseEmbedding {table!r} was called with ids that are not a field of the batch as they are: compute "
                "them in the data provider, or name the fields they come from with SparseEmbedding(..., fields=(...))"
            )
        return tuple(self.seen[table])


def spec_of(name: str, module: SparseEmbedding) -> TableSpec:
    return TableSpec(name, module.dim, module.init, module.num_embeddings, module.limits)


def _offsets(counts: np.ndarray) -> list[int]:
    return [0, *accumulate(counts.tolist())]


def _ids(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else _ids(value.values)


def _key(tensor: Tensor) -> tuple[int, int]:
    """Tells a field's tensor, or a reshaped view of it, from others of the same batch."""
    return (tensor.data_ptr(), tensor.numel()) if tensor.is_contiguous() else (0, id(tensor))


def _gradient(rows: Tensor) -> np.ndarray:
    grad = rows.grad if rows.grad is not None else torch.zeros_like(rows)
    return grad.cpu().contiguous().numpy()


def _search(table: str, known: np.ndarray, ids: Tensor) -> Tensor:
    """Positions of ids that the model derived from its fields, e.g. by slicing."""
    order = np.argsort(known)
    flat = ids.reshape(-1).numpy()
    at = np.minimum(np.searchsorted(known, flat, sorter=order), max(len(known) - 1, 0))
    if len(known) == 0 or (known[order[at]] != flat).any():
        raise InputError(f"SparseEmbedding {table!r} was asked for ids that are not in its fields of this batch")
    return torch.from_numpy(order[at])
