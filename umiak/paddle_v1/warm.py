"""Compiles every loop of the v1 layers and update rules once, for numba's cache: `python -m umiak.paddle_v1.warm`.

Part of setting up. Without it the first v1 job of a fresh installation spends some seconds on it.
"""

from __future__ import annotations

import numpy as np
import torch

from umiak.nn import sequence
from umiak.paddle_v1.network.lstm import lstm
from umiak.paddle_v1.network.rows import lookup, product
from umiak.paddle_v1.network.values import Bags
from umiak.paddle_v1.registration import register
from umiak.paddle_v1.rules.settings import V1Momentum
from umiak.pserver.protocol import Fetch, Flags, ServiceSpec, TableSpec
from umiak.pserver.service import Contribution, Service
from umiak.spec.optim import to_json


def main() -> None:
    _layers()
    _rules()


def _layers() -> None:
    ids, offsets = torch.tensor([0, 1, 2]), torch.tensor([0, 2, 3])
    rows = torch.ones(3, 8, requires_grad=True)
    weight, bias = torch.ones(2, 8, requires_grad=True), torch.ones(14, requires_grad=True)
    made = [
        lookup(rows, ids),
        product(rows, ids, Bags(ids, offsets)),
        product(rows, ids, Bags(ids, offsets, torch.ones(3))),
        sequence.context(rows, offsets, -1, 3),
        sequence.largest(rows, offsets),
        sequence.total(rows, offsets, mean=True),
        lstm(rows, offsets, weight, bias),
    ]
    torch.stack([value.sum() for value in made]).sum().backward()


def _rules() -> None:
    """One update of dense values and of a table, by a rule that changes untouched rows too."""
    register()
    optimizer = to_json(V1Momentum(0.1, l2=0.1))
    table = TableSpec("table", 4, {"kind": "constant", "value": 0.0}, 8)
    spec = ServiceSpec(0, 1, 1, 1, optimizer, {}, [("dense", 0, 4)], [table], 0, 1)
    service = Service(spec, np.zeros(4, np.float32))
    ids = np.arange(8)
    service.fetch(0, [ids], Fetch.CREATE)
    service.want(0, [ids])
    gradients = np.ones(4, np.float32), [np.ones((8, 4), np.float32)]
    service.contribute(0, 0, Contribution(1, Flags.OUT_OF_DATA, 0.0, *gradients))
    service.finish()


if __name__ == "__main__":
    main()
