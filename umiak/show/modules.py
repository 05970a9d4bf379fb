"""Where a job would put the parameters and tables of a model, for `umiak show`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from umiak.launch.plan import plan_workers
from umiak.nn.outline import parts, variables
from umiak.pserver.placement import dense_blocks, holders, model_bytes
from umiak.spec.outline import Held, Variable
from umiak.spec.settings import Settings

__all__ = ["held", "parts", "variables"]


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
