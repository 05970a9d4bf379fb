"""The first values of v1 parameters, and the module tree that gives them their v1 names."""

from __future__ import annotations

import torch
from torch import nn

from umiak.nn.sparse import SparseEmbedding
from umiak.paddle_v1.graph import Normal, Parameter


def tensor(parameter: Parameter) -> nn.Parameter:
    """A dense parameter at its first values, drawn from torch's random state."""
    values = torch.empty(parameter.shape)
    init = parameter.init
    if isinstance(init, Normal):
        # A bias has std 0; drawing numbers for it would be in vain.
        values = values.fill_(init.mean) if init.std == 0 else values.normal_(init.mean, init.std)
    else:
        values.uniform_(init.low, init.high)
    return nn.Parameter(values, requires_grad=not parameter.static)


def table(parameter: Parameter, fields: tuple[str, ...]) -> SparseEmbedding:
    """A parameter with sparse_update=True: a table on the servers; `fields` are the data layers whose ids it sees."""
    rows, dim = parameter.shape
    init = parameter.init
    if isinstance(init, Normal):
        return SparseEmbedding(dim, rows, fields=fields, name=parameter.name, mean=init.mean, std=init.std)
    return SparseEmbedding(dim, rows, fields=fields, name=parameter.name, uniform=(init.low, init.high))


def attach(root: nn.Module, name: str, parameter: nn.Parameter) -> None:
    """Place a parameter so that named_parameters() calls it by its v1 name, whose dots separate modules.

    Not by register_parameter: a config may call a parameter "training" or "forward".
    """
    *path, last = name.split(".")
    module = root
    for part in path:
        module = module._modules.setdefault(part, nn.Module())
    module._parameters[last] = parameter
