"""Compiles every loop of the v1 layers once, for numba's cache: `python -m umiak.paddle_v1.warm`, part of setting up.

Without it the first v1 job of a fresh installation spends some seconds on it.
"""

from __future__ import annotations

import torch

from umiak.nn import sequence
from umiak.paddle_v1.network.lstm import lstm
from umiak.paddle_v1.network.rows import lookup, product
from umiak.paddle_v1.network.values import Bags


def main() -> None:
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


if __name__ == "__main__":
    main()
