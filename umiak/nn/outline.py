"""Looks at a torch module for whoever draws it: its modules, its parameters and its tables. Changes nothing and draws nothing."""

from __future__ import annotations

from torch import nn

from umiak.nn.sparse import SparseEmbedding, sparse_tables
from umiak.spec.outline import Part, Variable

MODEL = "model"


def parts(model: nn.Module) -> tuple[Part, ...]:
    """The modules of a model as a tree: each belongs to the one around it. How data flow through them, only forward() knows."""
    made = []
    sparse_tables(model)
    for path, module in model.named_modules():
        own = [f"{path}.{name}" if path else name for name, _ in module.named_parameters(recurse=False)]
        if isinstance(module, SparseEmbedding):
            own.append(module.table)
        around = (path.rpartition(".")[0] or MODEL,) if path else ()
        made.append(Part(path or MODEL, type(module).__name__, _size(module), around, tuple(own)))
    return tuple(made)


def _size(module: nn.Module) -> str:
    """The dims of what it trains itself; of a part that trains nothing, what torch says of it."""
    own = [Variable("", tuple(parameter.shape)) for parameter in module.parameters(recurse=False)]
    if isinstance(module, SparseEmbedding):
        own = [Variable("", (module.num_embeddings, module.dim))]
    if own:
        return " + ".join(variable.dims for variable in own)
    return "" if list(module.children()) else module.extra_repr()


def variables(model: nn.Module) -> tuple[Variable, ...]:
    """Parameters in the order in which they lie on the servers, then tables."""
    dense = [
        Variable(name, tuple(parameter.shape), "dense" if parameter.requires_grad else "fixed")
        for name, parameter in model.named_parameters()
    ]
    tables = [
        Variable(name, (table.num_embeddings, table.dim), "table") for name, table in sparse_tables(model).items()
    ]
    return (*dense, *tables)
