"""A snapshot as an nn.Module: the model of its config, with its values, on plain torch. No server, nothing trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from umiak.errors import InputError
from umiak.evaluation.stored import StoredRows, open_table
from umiak.files import exists
from umiak.nn.sparse import sparse_tables
from umiak.rundir.layout import CONFIG_NAME
from umiak.rundir.snapshot import Contents, check_tables
from umiak.spec.config import Config
from umiak.spec.load import Loaded
from umiak.spec.load import load as load_config
from umiak.spec.settings import Settings
from umiak.trainer.forward import build
from umiak.trainer.initial import load_dense
from umiak.trainer.tables import spec_of

CPU = torch.device("cpu")


def config_of(
    snapshot: Path,
    path: Path | None = None,
    arguments: Mapping[str, str] | None = None,
    settings: Settings | None = None,
) -> Loaded:
    """The config of a snapshot: its own copy, or the file at `path`, with the arguments it was trained with.

    `settings` say what it is for (see spec/load.py); without them, for the model alone.
    Running a config runs its code: only load snapshots whose origin you trust.
    """
    contents = Contents(snapshot)
    described = contents.model
    arguments = {**described.get("config_args", {}), **(arguments or {})}
    settings = settings or Settings(job="load")
    settings = replace(settings, paddle_version=settings.paddle_version or described.get("paddle_version", ""))
    if path is not None:
        return load_config(path, arguments, settings)
    copy = snapshot / Path(contents.read(CONFIG_NAME).decode()).name if exists(snapshot / CONFIG_NAME) else snapshot
    if not copy.is_file():
        raise InputError(f"{snapshot} holds no copy of its config: name the config it was trained with (--config)")
    contents.check_config()
    try:
        return load_config(copy, arguments, settings)
    except InputError as error:
        raise InputError(
            f"{error} (a snapshot's own copy; if it needs files beside it, use the original: --config)"
        ) from error


def load_model(snapshot: Path, config: Config, device: torch.device = CPU) -> nn.Module:
    """The model with a snapshot's values, in eval mode and without gradients. Another model's snapshot is refused."""
    contents = Contents(snapshot)
    described = contents.model
    model = build(config, device)
    parameters = dict(model.named_parameters())
    modules = sparse_tables(model)
    for kind, ours in (("parameters", parameters), ("tables", modules)):
        if extra := sorted(described[kind].keys() - ours.keys()):
            raise InputError(
                f"the snapshot {snapshot} holds {extra[0]!r}, which the model does not have: it belongs to another model"
            )
    specs = [spec_of(name, module) for name, module in modules.items()]
    check_tables(snapshot, specs)
    load_dense(snapshot, parameters, model)
    rows = StoredRows(
        {
            spec.name: open_table(
                contents,
                spec.name,
                described["tables"].get(spec.name, {"dim": spec.dim, "vocab": spec.vocab}),
                described.get("seed", 0),
            )
            for spec in specs
        }
    )
    for module in modules.values():
        module.source = rows
    return model.eval().requires_grad_(False)
