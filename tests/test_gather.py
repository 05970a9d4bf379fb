"""Our lookup and bags against torch's own, values and gradients."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from umiak.nn import gather

SIZES = [(1, 1), (50, 2), (300, 16), (40, 7)]


def leaves(count: int, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    rows = torch.randn(count, dim, generator=torch.Generator().manual_seed(count))
    return rows.clone().requires_grad_(), rows.clone().requires_grad_()


@pytest.mark.parametrize(("count", "dim"), SIZES)
def test_lookup_is_torchs_embedding(count: int, dim: int) -> None:
    ours, theirs = leaves(count, dim)
    index = torch.randint(count, (17, 3), generator=torch.Generator().manual_seed(1))
    weight = torch.randn(17, 3, dim)
    (gather.lookup(ours, index) * weight).sum().backward()
    (functional.embedding(index, theirs) * weight).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
    assert torch.equal(gather.lookup(ours, index), functional.embedding(index, theirs))


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize(("count", "dim"), SIZES)
def test_a_bag_is_torchs_embedding_bag_with_empty_bags_too(count: int, dim: int, mean: bool) -> None:
    ours, theirs = leaves(count, dim)
    offsets = torch.tensor([0, 4, 4, 5, 30, 30])
    index = torch.randint(count, (30,), generator=torch.Generator().manual_seed(2))
    weight = torch.randn(5, dim)
    mine = gather.bag(ours, index, offsets, mean)
    other = functional.embedding_bag(index, theirs, offsets[:-1], mode="mean" if mean else "sum")
    torch.testing.assert_close(mine, other)
    (mine * weight).sum().backward()
    (other * weight).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_gradients_are_the_same_bytes_every_time() -> None:
    grads = []
    for _ in range(3):
        rows, _ = leaves(300, 16)
        index = torch.randint(300, (5000,), generator=torch.Generator().manual_seed(3))
        gather.lookup(rows, index).square().sum().backward()
        assert rows.grad is not None
        grads.append(rows.grad.numpy().tobytes())
    assert len(set(grads)) == 1
