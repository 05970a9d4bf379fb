"""The embedding whose table lives on the parameter servers. A model author writes it where nn.Embedding would stand.

The module holds no weights: whoever runs the model (a trainer, a loaded snapshot) gives it a `RowSource`, and a forward pass
works on the rows of the current batch alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from umiak.errors import InputError
from umiak.nn import gather


class RowSource(Protocol):
    def rows(self, table: str, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Rows that cover `ids`, and for each id the position of its row (in the shape of `ids`)."""


class SparseEmbedding(nn.Module):
    """A table on the parameter servers with a row of `dim` floats for each 64-bit id.

    `num_embeddings` declares a vocabulary; without it the table is open, and any id has a row. Ids are an int64 tensor of any
    shape, or a Ragged. With `bag` ("sum" or "mean"), the rows of each sample are reduced to one: those of a Ragged, or of the
    last axis of a tensor. A new row is drawn from N(`mean`, `std`), or uniformly from `uniform`, and depends only on the job's
    seed, the table's name and the id. A `layer` processes rows before they are looked up, so once per distinct id of a batch;
    unless it mixes lines or draws random numbers, the result is the same as if it followed the embedding. `fields` names the
    batch fields whose ids this table sees; you need it only if the model computes ids instead of passing them on. In snapshots
    the table is called `name`, or by its place in the model.

    For large tables: an id gets a row after `min_count` appearances, a row expires after `expire_after` passes without use, and
    there are at most `max_rows` rows. `dtype="float16"` stores rows in half precision.
    """

    def __init__(
        self,
        dim: int,
        num_embeddings: int | None = None,
        *,
        bag: str | None = None,
        layer: nn.Module | None = None,
        std: float = 0.01,
        mean: float = 0.0,
        uniform: tuple[float, float] | None = None,
        fields: tuple[str, ...] = (),
        name: str = "",
        min_count: int = 0,
        expire_after: int | None = None,
        max_rows: int | None = None,
        dtype: str = "float32",
    ) -> None:
        super().__init__()
        if dim < 1:
            raise InputError(f"SparseEmbedding: dim must be at least 1, not {dim}")
        if num_embeddings is not None and num_embeddings < 1:
            raise InputError(f"SparseEmbedding: num_embeddings must be at least 1, not {num_embeddings}")
        if bag not in (None, "sum", "mean"):
            raise InputError(f'SparseEmbedding: bag must be "sum", "mean" or None, not {bag!r}')
        if dtype not in ("float32", "float16"):
            raise InputError(f'SparseEmbedding: dtype must be "float32" or "float16", not {dtype!r}')
        if layer is not None and not isinstance(layer, nn.Module):
            raise InputError(f"SparseEmbedding: layer must be a module, like nn.Linear({dim}, …), not {layer!r}")
        self.dim, self.num_embeddings, self.bag, self.fields = dim, num_embeddings, bag, fields
        self.init: dict[str, Any] = (
            {"kind": "uniform", "low": uniform[0], "high": uniform[1]}
            if uniform is not None
            else {"kind": "normal", "mean": mean, "std": std}
        )
        self.limits = {"min_count": min_count, "expire_after": expire_after, "max_rows": max_rows, "dtype": dtype}
        self.name = self.table = name
        self.layer = layer
        self.source: RowSource | None = None

    def forward(self, ids: Any) -> Tensor:
        values = ids if isinstance(ids, Tensor) else ids.values
        rows, index = self.rows(values)
        if self.layer is not None:
            if len(rows) > index.numel():  # a whole table
                rows, index = gather.lookup(rows, index.reshape(-1)), _places(index)
            rows = self.layer(rows)
        if self.bag is None:
            return gather.lookup(rows, index)
        mean = self.bag == "mean"
        if values is not ids:
            return gather.bag(rows, index, ids.offsets, mean)
        if index.dim() < 2:
            raise InputError(f"SparseEmbedding {self.table!r} with a bag needs a Ragged or a tensor of two axes")
        offsets = _offsets(index.numel(), index.shape[-1], index.device)
        return gather.bag(rows, index.reshape(-1), offsets, mean).reshape(*index.shape[:-1], rows.shape[1])

    def rows(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Rows that cover these ids, and for each id the position of its row."""
        if self.source is None:
            raise InputError(
                "SparseEmbedding has no rows yet: run the model through umiak.train, umiak.join or umiak.load(SNAPSHOT)"
            )
        if ids.dtype != torch.int64:
            raise InputError(f"SparseEmbedding {self.table!r} needs int64 ids, not {ids.dtype}")
        return self.source.rows(self.table, ids)

    def extra_repr(self) -> str:
        return f"{self.dim}, num_embeddings={self.num_embeddings}, bag={self.bag}"


def _places(index: Tensor) -> Tensor:
    return torch.arange(index.numel(), device=index.device).reshape(index.shape)


@lru_cache(maxsize=8)
def _offsets(count: int, width: int, device: torch.device) -> Tensor:
    """Where bags of one width begin, and where the last one ends."""
    return torch.arange(0, count + 1, width, device=device)


def sparse_tables(model: nn.Module) -> dict[str, SparseEmbedding]:
    """The tables of a model by the name they have in snapshots; each module learns its own name."""
    tables = {}
    for path, module in model.named_modules():
        if isinstance(module, SparseEmbedding):
            module.table = module.name or (f"{path}.weight" if path else "weight")
            tables[module.table] = module
    return tables
