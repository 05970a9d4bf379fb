"""The values a model begins with where a snapshot gives them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from umiak.errors import InputError
from umiak.rundir.snapshot import Contents, lacks


def load_dense(snapshot: Path, parameters: Mapping[str, nn.Parameter], model: nn.Module, missing: str = "fail") -> None:
    """Put a snapshot's values into a model's parameters, and its buffers back.

    Where a file is missing, "rand" leaves the parameter as it was built and "zero" makes it zero.
    """
    contents = Contents(snapshot)
    shapes = contents.model["parameters"]
    with torch.no_grad():
        for name, parameter in parameters.items():
            if lacks(snapshot, name, missing):
                if missing == "zero":
                    parameter.zero_()
                continue
            values = contents.parameter(name, parameter.numel())
            if shapes.get(name, list(parameter.shape)) != list(parameter.shape):
                raise InputError(
                    f"parameter {name!r} is {shapes[name]} in the snapshot {snapshot}, but {list(parameter.shape)} in the "
                    "model: it is a snapshot of another model"
                )
            parameter.copy_(torch.from_numpy(values).view(parameter.shape))
        stored = contents.buffers()
        for name, buffer in model.named_buffers():
            if name in stored:
                buffer.copy_(stored[name])
