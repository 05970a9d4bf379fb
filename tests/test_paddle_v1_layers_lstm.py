"""The LSTM of v1 against a NumPy loop over single steps, and its gradients against finite differences."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from tests.v1_graphs import FULL, OFFSETS, check_gradients, data, fc, graph, network, result, tensors, values
from umiak.data.columns import Ragged
from umiak.errors import InputError
from umiak.paddle_v1.graph import Layer
from umiak.paddle_v1.network import exponent, lstm_steps
from umiak.paddle_v1.network.lstm import lstm

STEPS = Ragged(np.random.default_rng(0).standard_normal((9, 3)), OFFSETS)
ACTIVATIONS: dict[str, Any] = {
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0),
    "linear": lambda x: x,
}


def by_hand(
    x: np.ndarray,
    offsets: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    reverse: bool = False,
    kinds: tuple[str, str, str] = ("tanh", "sigmoid", "tanh"),
) -> np.ndarray:
    """One sequence after the other, one step at a time. Columns: candidate, input, forget, output; then peepholes."""
    activate, gate, state = (ACTIVATIONS[kind] for kind in kinds)
    n = len(weight)
    of_input, of_forget, of_output = bias[4 * n : 5 * n], bias[5 * n : 6 * n], bias[6 * n :]
    out = np.empty((len(x), n))
    for begin, end in itertools.pairwise(offsets):
        h, c = np.zeros(n), np.zeros(n)
        for line in reversed(range(begin, end)) if reverse else range(begin, end):
            zc, zi, zf, zo = np.split(x[line] + h @ weight + bias[: 4 * n], 4)
            i, f = gate(zi + c * of_input), gate(zf + c * of_forget)
            c = i * activate(zc) + f * c
            h = gate(zo + c * of_output) * state(c)
            out[line] = h
    return out


def memory(**options: Any) -> Layer:
    kinds = {name: options.pop(name) for name in ("activation",) if name in options}
    weights = ("_out.w0",)
    return Layer("out", "lstmemory", 2, ("x",), weights, "_out.wbias", kinds.get("activation", "tanh"), options=options)


@pytest.mark.parametrize("reverse", [False, True])
def test_an_lstmemory_goes_step_by_step_through_every_sequence(reverse: bool) -> None:
    net = network(graph(data("s", 3), fc("x", 8, "s", activation="linear"), memory(reverse=reverse)))
    w = values(net)
    expected = by_hand(STEPS.values @ w["_x.w0"] + w["_x.wbias"], OFFSETS, w["_out.w0"], w["_out.wbias"], reverse)
    np.testing.assert_allclose(result(net, {"s": STEPS}), expected)
    check_gradients(net, {"s": STEPS})


@pytest.mark.parametrize(
    "kinds", [("relu", "sigmoid", "sigmoid"), ("linear", "sigmoid", "linear"), ("sigmoid", "tanh", "relu")]
)
def test_other_activations_than_the_usual_ones(kinds: tuple[str, str, str]) -> None:
    layer = memory(activation=kinds[0], gate_activation=kinds[1], state_activation=kinds[2])
    net = network(graph(data("s", 3), fc("x", 8, "s", activation="linear"), layer), seed=3)
    w = values(net)
    x = STEPS.values @ w["_x.w0"] + w["_x.wbias"]
    np.testing.assert_allclose(
        result(net, {"s": STEPS}), by_hand(x, OFFSETS, w["_out.w0"], w["_out.wbias"], kinds=kinds)
    )
    check_gradients(net, {"s": STEPS})


def test_without_a_bias_there_are_no_peepholes() -> None:
    layer = Layer("out", "lstmemory", 2, ("x",), ("_out.w0",))
    net = network(graph(data("s", 3), fc("x", 8, "s", activation="linear"), layer))
    w = values(net)
    x = STEPS.values @ w["_x.w0"] + w["_x.wbias"]
    kinds = ("linear", "sigmoid", "tanh")  # a layer's own default is linear; the helper of the language says tanh
    np.testing.assert_allclose(result(net, {"s": STEPS}), by_hand(x, OFFSETS, w["_out.w0"], np.zeros(14), kinds=kinds))
    check_gradients(net, {"s": STEPS})


def test_an_activation_that_needs_the_whole_line_is_refused() -> None:
    with pytest.raises(InputError, match="'softmax' is not possible here; it can be linear, tanh, sigmoid, relu"):
        network(graph(data("x", 8), memory(activation="softmax")))


def test_dropout_comes_after_the_recurrence() -> None:
    layer = memory()
    dropped = Layer(**{**vars(layer), "drop_rate": 0.5})
    plain = network(graph(data("x", 8), layer))
    net = network(graph(data("x", 8), dropped))
    batch = {"x": Ragged(np.random.default_rng(1).standard_normal((11, 8)), FULL)}
    whole, masked = result(plain, batch), result(net, batch)
    assert 0 < np.count_nonzero(masked) < masked.size
    np.testing.assert_array_equal(masked[masked != 0], whole[masked != 0])
    net.eval()
    np.testing.assert_array_equal(result(net, batch), 0.5 * whole)


def test_the_order_of_sequences_in_a_batch_does_not_matter() -> None:
    generator = np.random.default_rng(2)
    lengths = generator.integers(1, 9, 20)
    sequences = [generator.standard_normal((length, 8)).astype(np.float32) for length in lengths]
    weight, bias = torch.randn(2, 8), torch.randn(14)

    def run(order: np.ndarray) -> list[np.ndarray]:
        offsets = np.r_[0, np.cumsum(lengths[order])]
        lines = np.concatenate([sequences[number] for number in order])
        out = lstm(torch.from_numpy(lines), torch.from_numpy(offsets), weight, bias).numpy()
        parts = np.split(out, offsets[1:-1])
        return [parts[list(order).index(number)] for number in range(20)]

    for one, other in zip(run(np.arange(20)), run(generator.permutation(20)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_single_precision_is_as_good_as_it_can_be() -> None:
    generator = np.random.default_rng(3)
    x, weight, bias = (generator.standard_normal(shape) for shape in ((40, 32), (8, 32), 56))
    offsets = np.array([0, 25, 40])
    single = (torch.from_numpy(array.astype(np.float32)) for array in (weight, bias))
    out = lstm(torch.from_numpy(x.astype(np.float32)), torch.from_numpy(offsets), *single)
    np.testing.assert_allclose(out.numpy(), by_hand(x, offsets, weight, bias), atol=2e-6)


def test_the_fast_functions_are_exact_to_single_precision_and_let_nan_through() -> None:
    points = np.r_[np.linspace(-120, 120, 10_001), np.geomspace(1e-6, 1, 100)].astype(np.float32)
    for kind, true in ((lstm_steps.TANH, np.tanh), (lstm_steps.SIGMOID, lambda x: 1 / (1 + np.exp(-x)))):
        lines = points[None].copy()
        lstm_steps._activate(kind, lines, 0, 0, points.size)
        np.testing.assert_allclose(lines[0], true(points.astype(np.float64)), atol=2.5e-7)
    special = np.array([[np.nan, np.inf, -np.inf]], np.float32)
    lstm_steps._activate(lstm_steps.TANH, special, 0, 0, 3)
    np.testing.assert_array_equal(special[0], np.array([np.nan, 1, -1], np.float32))
    assert exponent.exponential(1.0) == pytest.approx(np.e)


def test_a_batch_without_any_step_gives_nothing() -> None:
    net = network(graph(data("x", 8), memory()))
    batch = {"x": Ragged(np.zeros((0, 8)), np.array([0, 0, 0]))}
    output = net(tensors(batch)).values["out"].data
    assert output.shape == (0, 2)
    output.sum().backward()
