"""A layer inside a SparseEmbedding gives what it would give behind it, from each distinct row once."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from umiak.data.columns import Ragged
from umiak.errors import InputError
from umiak.nn import SparseEmbedding

IDS = torch.tensor([[3, 3, 9], [9, 3, 3]])
BAGS = Ragged(IDS.reshape(-1), torch.tensor([0, 1, 1, 6]))


class Rows:
    """All rows of a table, or those of the ids 3 and 9 alone, as a batch has them."""

    def __init__(self, whole: bool) -> None:
        table = torch.randn(20, 4, generator=torch.Generator().manual_seed(1))
        self.whole = whole
        self.all = (table if whole else table[[3, 9]]).requires_grad_()

    def rows(self, table: str, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.all, ids if self.whole else (ids == 9).long()


class Counting(nn.Sequential):
    lines = 0

    def forward(self, rows):
        self.lines += len(rows)
        return super().forward(rows)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("bag", [None, "sum", "mean"])
def test_a_layer_inside_gives_what_it_gives_behind(whole: bool, bag: str | None) -> None:
    layer = Counting(nn.Linear(4, 6), nn.Tanh())
    inside, behind = SparseEmbedding(4, bag=bag, layer=layer), SparseEmbedding(4)
    inside.source, behind.source = Rows(whole), Rows(whole)
    made = inside(BAGS if bag else IDS)
    assert layer.lines == (6 if whole else 2)
    expected = layer(behind(IDS.reshape(-1)))
    if bag:
        parts = [expected[:1], expected[:0], expected[1:]]
        expected = torch.stack([part.sum(0) / (max(1, len(part)) if bag == "mean" else 1) for part in parts])
    torch.testing.assert_close(made, expected.reshape(made.shape))
    slope = torch.randn(made.shape, generator=torch.Generator().manual_seed(2))
    (made * slope).sum().backward()
    (expected.reshape(made.shape) * slope).sum().backward()
    torch.testing.assert_close(inside.source.all.grad, behind.source.all.grad)
    assert made.shape == ((3, 6) if bag else (2, 3, 6))


def test_a_layer_that_is_no_module_is_refused() -> None:
    with pytest.raises(InputError, match="layer must be a module"):
        SparseEmbedding(4, layer="tanh")  # type: ignore[arg-type]
