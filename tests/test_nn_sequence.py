"""Functions of sequences: the loops of a CPU against torch's own parts, which other devices use."""

from __future__ import annotations

import pytest
import torch

from umiak import nn
from umiak.errors import InputError
from umiak.nn import sequence

OFFSETS = torch.tensor([0, 3, 3, 4, 9])
LINES = torch.randn(9, 5, generator=torch.Generator().manual_seed(3))


def _with_gradient(function, *arguments):
    lines = LINES.clone().requires_grad_()
    made = function(lines, OFFSETS, *arguments)
    weights = torch.arange(made.numel(), dtype=made.dtype).reshape(made.shape)
    (made * weights).sum().backward()
    return made, lines.grad


def test_context_is_each_lines_neighbours_and_zeros_beyond_its_sequence():
    made, gradient = _with_gradient(nn.context, -2, 5)
    other, gradient_of_other = _with_gradient(sequence._context_elsewhere, -2, 5)
    assert torch.equal(made, other)
    torch.testing.assert_close(gradient, gradient_of_other)
    assert torch.equal(made[3], torch.cat([torch.zeros(10), LINES[3], torch.zeros(10)]))


def test_largest_is_the_maximum_of_each_sequence_and_zero_of_an_empty_one():
    made, gradient = _with_gradient(nn.largest)
    other, gradient_of_other = _with_gradient(sequence._largest_elsewhere)
    assert torch.equal(made, other)
    torch.testing.assert_close(gradient, gradient_of_other)
    assert torch.equal(made[1], torch.zeros(5))
    assert torch.equal(made[3], LINES[4:].max(0).values)


@pytest.mark.parametrize("offsets", [OFFSETS + 1, OFFSETS[:-1], OFFSETS.int()])
def test_offsets_that_do_not_fit_are_refused_before_any_loop_runs_on_them(offsets: torch.Tensor) -> None:
    for function in (lambda: nn.context(LINES, offsets, -1, 3), lambda: nn.largest(LINES, offsets)):
        with pytest.raises(InputError, match="do not fit offsets"):
            function()
    with pytest.raises(InputError, match="length must be at least 1"):
        nn.context(LINES, OFFSETS, 0, 0)
