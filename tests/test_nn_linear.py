"""umiak.nn.Linear: torch's layer in other steps."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import umiak
from umiak.nn import linear


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "WORTH", 0)


@pytest.mark.parametrize("shape", [(7, 13), (7, 32), (2, 7, 13), (0, 13), (13,)], ids=str)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_outputs_and_gradients_are_those_of_torch(shape: tuple[int, ...], bias: bool) -> None:
    found = []
    torch.manual_seed(1)
    given, grad = torch.randn(shape), torch.randn(*shape[:-1], 5)
    for kind in (nn.Linear, umiak.nn.Linear):
        torch.manual_seed(2)
        layer, lines = kind(shape[-1], 5, bias=bias), given.clone().requires_grad_()
        out = layer(lines)
        out.backward(grad)
        found.append([out.detach(), lines.grad, *(parameter.grad for parameter in layer.parameters())])
    torch.testing.assert_close(*found)


def test_a_frozen_layer_and_inputs_without_gradient() -> None:
    layer, lines = umiak.nn.Linear(13, 5), torch.randn(4, 13)
    layer(lines).sum().backward()
    assert layer.weight.grad is not None and layer.bias.grad is not None
    layer = umiak.nn.Linear(13, 5).requires_grad_(False)
    layer(lines.requires_grad_()).sum().backward()
    torch.testing.assert_close(lines.grad, layer.weight.sum(0).expand(4, 13))
    assert layer.weight.grad is None


def test_the_gradient_of_the_inputs_has_whole_cache_lines() -> None:
    """What makes it fast; a view, so nobody else sees the padding."""
    lines, seen = torch.randn(4, 13, requires_grad=True), []
    lines.register_hook(seen.append)
    umiak.nn.Linear(13, 5)(lines).sum().backward()
    assert seen[0].shape == (4, 13) and seen[0].stride() == (16, 1)


def test_gradients_of_gradients_and_half_precision_work_as_in_torch() -> None:
    torch.manual_seed(1)
    given, found = torch.randn(4, 13), []
    for kind in (nn.Linear, umiak.nn.Linear):
        torch.manual_seed(2)
        layer, lines = kind(13, 5), given.clone().requires_grad_()
        (first,) = torch.autograd.grad(layer(lines).square().sum(), lines, create_graph=True)
        first.square().sum().backward()
        with torch.autocast("cpu", torch.bfloat16):
            half = layer(lines)
        half.sum().backward()
        found.append([first.detach(), half.detach(), lines.grad, layer.weight.grad])
    torch.testing.assert_close(*found)


def test_it_is_a_linear_layer_to_those_who_look() -> None:
    layer = umiak.nn.Linear(13, 5)
    assert isinstance(layer, nn.Linear) and list(layer.state_dict()) == ["weight", "bias"]
