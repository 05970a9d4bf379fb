"""Looks at a torch module for `umiak show`: its modules, its parameters and tables, and where a job would put them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import nn

from umiak.launch.plan import plan_workers
from umiak.nn.sparse import SparseEmbedding, sparse_tables
from umiak.pserver.placement import dense_blocks, holders, model_bytes
from umiak.show.outline import Held, Part, Variable
from umiak.spec.settings import Settings

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


def held(model: Sequence[Variable], settings: Settings) -> tuple[Held, ...]:
    """What each service of a job with these settings would hold."""
    services = [
        (server, service, each.dense, each.rows)
        for server, plan in enumerate(plan for plan in plan_workers(settings, Path(), "") if plan.addresses)
        for service, each in enumerate(plan.addresses)
    ]
    sizes = [(variable.name, variable.values or 0) for variable in model if variable.kind == "dense"]
    tables = [variable for variable in model if variable.kind == "table"]
    shapes = [(variable.shape[0], variable.shape[1] or 0) for variable in tables]
    used = holders(
        [(dense, rows) for _, _, dense, rows in services], model_bytes(sum(size for _, size in sizes), shapes)
    )
    blocks = iter(dense_blocks(sizes, sum(dense for dense, _ in used)))
    names = tuple(table.name for table in tables)
    return tuple(
        Held(server, service, tuple(next(blocks)) if dense else (), names if rows else ())
        for (server, service, _, _), (dense, rows) in zip(services, used, strict=True)
    )
