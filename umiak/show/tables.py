"""The tables of `umiak show`: parts, parameters, services."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from umiak.spec.outline import Outline

# Where no terminal says how wide it is, names are worth more than a narrow column.
WIDTH = 150


def tables(outline: Outline, console: Console | None = None) -> None:
    console = console or Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    for note in outline.notes:
        console.print(f"warning: {note}", style="yellow", markup=False, soft_wrap=True)
    _print(
        console,
        ("layer", "kind", "size", "reads") if outline.flows else ("module", "kind", "size", "part of"),
        [(part.name, part.kind, part.size, " ".join(part.inputs)) for part in outline.parts],
    )
    rows = []
    for variable in outline.variables:
        values = "" if variable.values is None else f"{variable.values:,}"
        homes = " ".join(outline.homes(variable.name))
        rows.append((variable.name, variable.kind, variable.dims, values, homes))
    _print(console, ("parameter", "kind", "dims", "values", "services"), rows)
    services = [
        (held.name, f"{held.values:,}", ", ".join(name for name, _, _ in held.blocks), ", ".join(held.tables))
        for held in outline.held
    ]
    if services:
        _print(console, ("service", "values", "parameters", "rows of tables"), services)
    total = sum(variable.values or 0 for variable in outline.variables)
    opened = any(variable.values is None for variable in outline.variables)
    told = (
        f"{len(outline.parts)} parts, {len(outline.variables)} parameters, {total:,} values ({4 * total / 1e6:,.1f} MB)"
    )
    console.print(told + (" and open tables" if opened else ""))


def _print(console: Console, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    table = Table(box=box.SIMPLE, pad_edge=False, show_edge=False)
    for head in heads:
        right = head in ("values", "size") and all(row[heads.index(head)].replace(",", "").isdigit() for row in rows)
        table.add_column(head, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table, markup=False)
    console.print()
