"""A snapshot as one safetensors file, for other tools: everything by name, open tables as sorted ids and their rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from umiak import __version__
from umiak.errors import InputError
from umiak.evaluation.stored import OpenTable, open_table
from umiak.files import check_target
from umiak.rundir.snapshot import Contents, find
from umiak.rundir.tensorfile import Stream, write_tensors


def export(path: Path, output: Path, overwrite: bool = False) -> None:
    """Write parameters, buffers and whole tables under their names, an open table as NAME.ids and NAME.rows.

    The header's metadata say where it comes from, and how rows of open tables begin that are not in the file.
    """
    if output.exists() and not overwrite:
        raise InputError(f"{output} exists: choose another --output or replace it with --overwrite")
    check_target(output)
    snapshot = find(path)
    contents = Contents(snapshot)
    described = contents.model
    if not described["parameters"] and not described["tables"]:
        raise InputError(f"{snapshot} has no model.json, which names shapes: only snapshots of umiak can be exported")
    tensors: dict[str, np.ndarray | Stream] = {
        name: contents.parameter(name, int(np.prod(shape, dtype=np.int64)), mapped=True).reshape(shape)
        for name, shape in described["parameters"].items()
    }
    tensors |= {name: value.numpy() for name, value in contents.buffers().items()}
    begins = {}
    for name, entry in described["tables"].items():
        table = open_table(contents, name, entry, described["seed"])
        if isinstance(table, OpenTable):
            tensors[f"{name}.ids"] = table.ids
            tensors[f"{name}.rows"] = Stream(np.dtype(np.float32), (len(table.ids), table.dim), table.chunks())
            begins[name] = entry["init"]
        else:
            tensors[name] = table.values
    metadata = {"producer": f"umiak {__version__}", "snapshot": snapshot.name, "seed": str(described["seed"])}
    write_tensors(output, tensors, {**metadata, "tables": json.dumps(begins, sort_keys=True)})
