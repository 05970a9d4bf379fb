"""Each layer of v1 against a NumPy computation of its own, and its gradients against finite differences."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from tests.v1_graphs import FULL, OFFSETS, check_gradients, data, fc, graph, mixed, network, result, tensors, values
from umiak.data.columns import Ragged
from umiak.errors import InputError
from umiak.paddle_v1.graph import Evaluator, Layer, Projection

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.standard_normal((4, 3)), RANDOM.standard_normal((4, 2))
IDS = Ragged(RANDOM.integers(0, 6, 9), OFFSETS)
STEPS = Ragged(RANDOM.standard_normal((9, 3)), OFFSETS)
FULL_STEPS = Ragged(RANDOM.standard_normal((11, 3)), FULL)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


ACTIVATIONS: dict[str, Any] = {
    "linear": lambda x: x,
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "relu": lambda x: np.maximum(x, 0),
    "softmax": softmax,
    "exponential": np.exp,
    "abs": np.abs,
    "square": np.square,
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_fc_is_the_activation_of_the_sum_of_its_products_and_its_bias(activation: str) -> None:
    net = network(graph(data("x", 3), data("y", 2), fc("out", 4, "x", "y", activation=activation)))
    w = values(net)
    expected = ACTIVATIONS[activation](X @ w["_out.w0"] + Y @ w["_out.w1"] + w["_out.wbias"])
    np.testing.assert_allclose(result(net, {"x": X, "y": Y}), expected)
    check_gradients(net, {"x": X, "y": Y})


def test_the_gradient_of_an_fc_reaches_the_layers_below() -> None:
    layers = (data("x", 3), fc("a", 4, "x"), fc("b", 2, "a", "x", activation="sigmoid"), fc("out", 2, "a", "b"))
    check_gradients(network(graph(*layers)), {"x": X})


def test_fc_on_a_sparse_vector_adds_up_the_rows_of_its_ids_as_often_as_they_are_named() -> None:
    bag = Ragged(np.array([0, 2, 2, 5, 1, 1, 1, 0, 4]), OFFSETS)
    counts = np.zeros((4, 6))
    np.add.at(counts, (np.repeat(np.arange(4), np.diff(OFFSETS)), bag.values), 1)
    net = network(graph(data("word", 6), fc("out", 2, "word", activation="softmax")))
    w = values(net)
    np.testing.assert_allclose(result(net, {"word": bag}), softmax(counts @ w["_out.w0"] + w["_out.wbias"]))
    check_gradients(net, {"word": bag})


def test_sparse_values_weigh_the_rows() -> None:
    numbers = RANDOM.standard_normal(9)
    full = np.zeros((4, 6))
    np.add.at(full, (np.repeat(np.arange(4), np.diff(OFFSETS)), IDS.values), numbers)
    net = network(graph(data("word", 6), data("x", 3), fc("out", 2, "x", "word")))
    w, batch = values(net), {"word": IDS, "word.weights": Ragged(numbers, OFFSETS), "x": X}
    np.testing.assert_allclose(result(net, batch), np.tanh(X @ w["_out.w0"] + full @ w["_out.w1"] + w["_out.wbias"]))
    check_gradients(net, batch)


def test_a_sequence_of_sparse_vectors_is_one_product_per_step() -> None:
    steps = Ragged(Ragged(np.array([0, 1, 5, 2, 2]), np.array([0, 2, 2, 3, 5])), np.array([0, 3, 4]))
    full = np.array([[1, 1, 0, 0, 0, 0], [0] * 6, [0, 0, 0, 0, 0, 1], [0, 0, 2, 0, 0, 0]])
    layers = (data("s", 6), fc("each", 3, "s"), Layer("out", "pool", 3, ("each",), options={"how": "sum"}))
    net = network(graph(*layers))
    w = values(net)
    lines = np.tanh(full @ w["_each.w0"] + w["_each.wbias"])
    np.testing.assert_allclose(result(net, {"s": steps}), [lines[:3].sum(0), lines[3]])
    check_gradients(net, {"s": steps})


def test_an_embedding_is_the_row_of_each_id() -> None:
    net = network(graph(data("word", 6), mixed("out", 3, Projection("table", "word", 3, "_out.w0"))))
    np.testing.assert_array_equal(result(net, {"word": IDS}), values(net)["_out.w0"][IDS.values])
    check_gradients(net, {"word": IDS})


def test_a_parameter_used_twice_gets_the_sum_of_both_gradients() -> None:
    table = (Projection("table", "word", 3, "shared"), Projection("table", "other", 3, "shared"))
    layers = (data("word", 6), data("other", 6), mixed("a", 3, table[0]), mixed("b", 3, table[1]))
    net = network(graph(*layers, Layer("out", "addto", 3, ("a", "b"))))
    ids = np.array([1, 5, 1, 0]), np.array([5, 5, 2, 1])
    shared = values(net)["shared"]
    np.testing.assert_allclose(result(net, {"word": ids[0], "other": ids[1]}), shared[ids[0]] + shared[ids[1]])
    check_gradients(net, {"word": ids[0], "other": ids[1]})


def test_a_matrix_a_bias_and_an_lstm_used_twice_get_the_sum_of_both_gradients() -> None:
    memory: dict[str, Any] = {"size": 2, "parameters": ("lstm",), "bias": "peepholes", "activation": "tanh"}
    layers = (
        data("s", 8),
        Layer("a", "fc", 8, ("s",), ("shared",), "bias", "tanh"),
        Layer("b", "fc", 8, ("a",), ("shared",), "bias", "tanh"),
        Layer("first", "lstmemory", inputs=("b",), **memory),
        Layer("second", "lstmemory", inputs=("a",), **memory),
        Layer("out", "addto", 2, ("first", "second")),
    )
    check_gradients(network(graph(*layers)), {"s": Ragged(RANDOM.standard_normal((11, 8)), FULL)})


def windows(lines: np.ndarray, offsets: np.ndarray, start: int, length: int) -> np.ndarray:
    out = np.zeros((len(lines), length * lines.shape[1]))
    for s in range(len(offsets) - 1):
        for i in range(offsets[s], offsets[s + 1]):
            near = [
                lines[j] if offsets[s] <= j < offsets[s + 1] else 0 * lines[0]
                for j in range(i + start, i + start + length)
            ]
            out[i] = np.concatenate(near)
    return out


@pytest.mark.parametrize(("start", "length"), [(-2, 5), (-1, 3), (-1, 2), (0, 1), (1, 2), (-7, 2)])
def test_a_context_is_zero_beyond_the_ends_of_a_sequence(start: int, length: int) -> None:
    options = {"start": start, "length": length}
    context = mixed("out", 2 * length, Projection("context", "a", 2 * length, options=options))
    net = network(graph(data("s", 3), fc("a", 2, "s", activation="linear"), context))
    w = values(net)
    lines = STEPS.values @ w["_a.w0"] + w["_a.wbias"]
    np.testing.assert_allclose(result(net, {"s": STEPS}), windows(lines, OFFSETS, start, length))
    check_gradients(net, {"s": STEPS})


@pytest.mark.parametrize(("start", "length"), [(-2, 5), (-1, 3), (-1, 2), (1, 2), (-7, 2), (-3, 1), (2, 3)])
def test_trained_padding_stands_beyond_the_ends_of_a_sequence(start: int, length: int) -> None:
    before, behind = max(0, -start), max(0, start + length - 1)
    options = {"start": start, "length": length, "lines": before + behind}
    context = mixed("out", 2 * length, Projection("context", "a", 2 * length, "_out.w0", options))
    net = network(graph(data("s", 3), fc("a", 2, "s", activation="linear"), context))
    w = values(net)
    lines, padding = STEPS.values @ w["_a.w0"] + w["_a.wbias"], w["_out.w0"]
    expected = windows(lines, OFFSETS, start, length)
    for first, last in pairwise(OFFSETS):
        for line in range(first, last):
            for number in range(length):
                place = line + start + number
                block = expected[line, 2 * number : 2 * number + 2]
                if place < first:
                    block += padding[before + place - first]
                elif place >= last:
                    block += padding[before + place - last]
    np.testing.assert_allclose(result(net, {"s": STEPS}), expected)
    check_gradients(net, {"s": STEPS})


def test_projections_of_a_mixed_layer_add_up() -> None:
    projections = (
        Projection("full_matrix", "x", 3, "_out.w0"),
        Projection("trans_full_matrix", "y", 3, "_out.w1"),
        Projection("identity", "a", 3),
        Projection("identity", "wide", 3, options={"offset": 1}),
        Projection("dotmul", "a", 3, "_out.w4"),
        Projection("scaling", "a", 3, "_out.w5"),
    )
    layers = (data("x", 3), data("y", 2), fc("a", 3, "x"), fc("wide", 5, "y"))
    net = network(graph(*layers, mixed("out", 3, *projections, bias="_out.wbias", activation="sigmoid")))
    w, batch = values(net), {"x": X, "y": Y}
    a, wide = np.tanh(X @ w["_a.w0"] + w["_a.wbias"]), np.tanh(Y @ w["_wide.w0"] + w["_wide.wbias"])
    total = X @ w["_out.w0"] + Y @ w["_out.w1"].T + a + wide[:, 1:4] + a * w["_out.w4"] + a * w["_out.w5"]
    np.testing.assert_allclose(result(net, batch), sigmoid(total + w["_out.wbias"]))
    check_gradients(net, batch)


POOLS = {"max": lambda part: part.max(0), "avg": lambda part: part.mean(0), "sum": lambda part: part.sum(0)}


@pytest.mark.parametrize("how", POOLS)
def test_pooling_is_over_each_sequence_by_its_own_length(how: str) -> None:
    pool = Layer("out", "pool", 4, ("a",), options={"how": how, "level": "non-seq"})
    net = network(graph(data("s", 3), fc("a", 4, "s"), pool))
    w = values(net)
    lines = np.tanh(STEPS.values @ w["_a.w0"] + w["_a.wbias"])
    parts = np.split(lines, OFFSETS[1:-1])
    expected = [POOLS[how](part) if len(part) else np.zeros(4) for part in parts]
    np.testing.assert_allclose(result(net, {"s": STEPS}), expected)
    check_gradients(net, {"s": STEPS})


def test_the_gradient_of_a_maximum_goes_to_the_first_of_equals() -> None:
    net = network(
        graph(
            data("word", 3),
            mixed("a", 2, Projection("table", "word", 2, "w")),
            Layer("out", "pool", 2, ("a",), options={"how": "max"}),
        )
    )
    with torch.no_grad():
        net.get_parameter("w").fill_(1.0)
    net(tensors({"word": Ragged(np.array([2, 0, 1]), np.array([0, 3]))})).values["out"].data.sum().backward()
    assert net.get_parameter("w").grad.tolist() == [[0, 0], [0, 0], [1, 1]]


NESTED = Ragged(Ragged(RANDOM.standard_normal((11, 3)), FULL), np.array([0, 1, 4]))
"""Two samples, of one and of three inner sequences."""


@pytest.mark.parametrize(("kind", "pick"), [("last_seq", -1), ("first_seq", 0)])
@pytest.mark.parametrize("level", ["non-seq", "seq"])
def test_the_ends_of_sequences_and_of_inner_sequences(kind: str, pick: int, level: str) -> None:
    net = network(graph(data("s", 3), fc("a", 2, "s"), Layer("out", kind, 2, ("a",), options={"level": level})))
    w = values(net)
    lines = np.tanh(NESTED.values.values @ w["_a.w0"] + w["_a.wbias"])
    runs = np.split(lines, FULL[1:-1] if level == "seq" else FULL[1:2])
    np.testing.assert_allclose(result(net, {"s": NESTED}), [run[pick] for run in runs])
    check_gradients(net, {"s": NESTED})


def test_inner_sequences_become_a_sequence_that_can_be_pooled_again() -> None:
    inner = Layer("inner", "pool", 2, ("a",), options={"how": "max", "level": "seq"})
    outer = Layer("out", "pool", 2, ("inner",), options={"how": "sum", "level": "non-seq"})
    net = network(graph(data("s", 3), fc("a", 2, "s"), inner, outer))
    w = values(net)
    tops = [run.max(0) for run in np.split(np.tanh(NESTED.values.values @ w["_a.w0"] + w["_a.wbias"]), FULL[1:-1])]
    np.testing.assert_allclose(result(net, {"s": NESTED}), [tops[0], tops[1] + tops[2] + tops[3]])
    check_gradients(net, {"s": NESTED})


@pytest.mark.parametrize("activation", ["linear", "tanh", "softmax"])
def test_concat_and_addto_join_layers_side_by_side_and_by_sum(activation: str) -> None:
    layers = (data("x", 3), fc("a", 2, "x"), fc("b", 2, "x"))
    a_and_b: list[np.ndarray] = []
    for kind, join in (("concat", lambda a, b: np.hstack([a, b])), ("addto", lambda a, b: a + b)):
        size = 4 if kind == "concat" else 2
        joined = Layer("out", kind, size, ("a", "b"), bias="_out.wbias", activation=activation)
        net = network(graph(*layers, joined))
        w = values(net)
        a_and_b = [np.tanh(X @ w[f"_{name}.w0"] + w[f"_{name}.wbias"]) for name in "ab"]
        expected = ACTIVATIONS[activation](join(*a_and_b) + w["_out.wbias"])
        np.testing.assert_allclose(result(net, {"x": X}), expected)
        check_gradients(net, {"x": X})


@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_cos_sim_is_the_cosine_times_its_scale(scale: float) -> None:
    layers = (data("x", 3), data("y", 2), fc("a", 4, "x"), fc("b", 4, "y"))
    net = network(graph(*layers, Layer("out", "cos_sim", 1, ("a", "b"), options={"scale": scale})))
    w, batch = values(net), {"x": X, "y": Y}
    a, b = np.tanh(X @ w["_a.w0"] + w["_a.wbias"]), np.tanh(Y @ w["_b.w0"] + w["_b.wbias"])
    cosine = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(result(net, batch), scale * cosine[:, None])
    check_gradients(net, batch)


def test_the_cosine_with_nothing_but_zeros_is_an_error_that_names_the_layer() -> None:
    net = network(
        graph(data("x", 3), data("z", 3), Layer("out", "cos_sim", 1, ("x", "z"), options={"scale": 1.0}, line=7))
    )
    with pytest.raises(InputError, match="layer 'out' of line 7: the cosine with a vector of zeros"):
        result(net, {"x": X, "z": np.zeros((4, 3))})


def test_maxid_is_the_number_of_the_largest_value() -> None:
    net = network(graph(data("x", 3), fc("a", 5, "x", activation="softmax"), Layer("out", "maxid", 5, ("a",))))
    w = values(net)
    np.testing.assert_array_equal(result(net, {"x": X}), (X @ w["_a.w0"] + w["_a.wbias"]).argmax(1))


def test_dropout_only_masks_in_training_and_scales_by_what_is_kept_outside() -> None:
    ones = np.ones((200, 3))
    net = network(graph(data("x", 3), Layer("out", "addto", 3, ("x",), drop_rate=0.25)))
    trained = result(net, {"x": ones})
    assert set(np.unique(trained)) == {0.0, 1.0}
    assert 0.68 < trained.mean() < 0.82
    net.eval()
    np.testing.assert_array_equal(result(net, {"x": ones}), 0.75 * ones)


def costs(net: Any, batch: dict[str, Any]) -> np.ndarray:
    return net(tensors(batch)).costs[0].detach().numpy()


def test_the_cost_of_a_classification_is_minus_the_log_of_the_right_probability_and_the_loss_its_sum_by_samples() -> (
    None
):
    layers = (data("x", 3), fc("p", 4, "x", activation="softmax"), data("label", 4))
    net = network(graph(*layers, Layer("cost", "cross_entropy", 1, ("p", "label"))))
    w, batch = values(net), {"x": X, "label": np.array([0, 3, 1, 1])}
    expected = -np.log(softmax(X @ w["_p.w0"] + w["_p.wbias"])[np.arange(4), batch["label"]])
    np.testing.assert_allclose(costs(net, batch), expected)
    output = net(tensors(batch))
    np.testing.assert_allclose(float(net.loss(output, batch).detach()), expected.sum() / 4)
    check_gradients(net, batch, lambda output: net.loss(output, batch))


def test_probabilities_that_a_layer_has_changed_are_used_as_they_are() -> None:
    layers = (
        data("x", 3),
        fc("p", 4, "x", activation="softmax"),
        Layer("half", "addto", 4, ("p", "p")),
        data("label", 4),
    )
    net = network(graph(*layers, Layer("cost", "cross_entropy", 1, ("half", "label"))))
    w, batch = values(net), {"x": X, "label": np.array([0, 3, 1, 1])}
    expected = -np.log(2 * softmax(X @ w["_p.w0"] + w["_p.wbias"])[np.arange(4), batch["label"]])
    np.testing.assert_allclose(costs(net, batch), expected)
    check_gradients(net, batch, lambda output: net.loss(output, batch))


def test_the_square_error_has_no_half_and_no_mean() -> None:
    net = network(graph(data("x", 3), fc("y", 2, "x"), data("t", 2), Layer("cost", "square_error", 1, ("y", "t"))))
    w, batch = values(net), {"x": X, "t": Y}
    expected = ((np.tanh(X @ w["_y.w0"] + w["_y.wbias"]) - Y) ** 2).sum(1)
    np.testing.assert_allclose(costs(net, batch), expected)
    check_gradients(net, batch, lambda output: net.loss(output, batch))


def test_costs_are_weighted_by_line_and_coefficient_and_added_up() -> None:
    first = Layer("cost", "square_error", 1, ("y", "t", "weight"), options={"coefficient": 0.5})
    second = Layer("other", "square_error", 1, ("y", "t"))
    layers = (data("x", 3), fc("y", 2, "x"), data("t", 2), data("weight", 1), first, second)
    net = network(graph(*layers, outputs=("cost", "other")))
    batch = {"x": X, "t": Y, "weight": np.array([[1.0], [0.0], [2.0], [3.0]])}
    plain = net(tensors(batch)).costs[1].detach().numpy()
    np.testing.assert_allclose(costs(net, batch), plain * [0.5, 0, 1, 1.5])
    loss = float(net.loss(net(tensors(batch)), batch).detach())
    np.testing.assert_allclose(loss, (plain * [1.5, 1, 2, 2.5]).sum() / 4)


def test_the_cost_of_sequences_is_summed_over_their_steps_but_divided_by_samples_alone() -> None:
    layers = (data("s", 3), fc("p", 2, "s", activation="softmax"), data("label", 2))
    net = network(graph(*layers, Layer("cost", "cross_entropy", 1, ("p", "label"))))
    labels = Ragged(RANDOM.integers(0, 2, 11), FULL)
    batch = {"s": FULL_STEPS, "label": labels}
    w = values(net)
    each = -np.log(softmax(FULL_STEPS.values @ w["_p.w0"] + w["_p.wbias"])[np.arange(11), labels.values])
    np.testing.assert_allclose(float(net.loss(net(tensors(batch)), batch).detach()), each.sum() / 4)


def test_the_classification_error_counts_wrong_lines() -> None:
    from umiak.paddle_v1.network.evaluators import metrics

    layers = (data("p", 3), data("label", 3), Layer("cost", "square_error", 1, ("p", "p")))
    error = Evaluator("classification_error_evaluator", "classification_error", ("p", "label"))
    made = graph(*layers, evaluators=(error,))
    batch = {"p": np.array([[0.1, 0.8, 0.1], [0.5, 0.5, 0.0], [0.2, 0.2, 0.6]]), "label": np.array([1, 1, 2])}
    metric, total = metrics(made)["classification_error_evaluator"], np.zeros(2)
    for _ in range(2):
        metric.add(total, network(made)(tensors(batch)), batch)
    assert total.tolist() == [2, 6]
    assert metric.value(total) == pytest.approx(1 / 3)


def test_a_weighted_classification_error_is_the_weight_of_wrong_lines_over_all_weight() -> None:
    from umiak.paddle_v1.network.evaluators import metrics

    layers = (data("p", 2), data("label", 1), data("w", 1), Layer("cost", "square_error", 1, ("p", "p")))
    error = Evaluator("classification_error_evaluator", "classification_error", ("p", "label", "w"))
    made = graph(*layers, evaluators=(error,))
    batch = {
        "p": np.array([[0.1, 0.9], [0.6, 0.4], [0.3, 0.7]]),
        "label": np.array([1, 1, 0]),
        "w": np.array([[4.0], [1.0], [0.5]]),
    }
    metric, total = metrics(made)["classification_error_evaluator"], np.zeros(2)
    metric.add(total, network(made)(tensors(batch)), batch)
    assert total.tolist() == [1.5, 5.5]


def test_a_label_beyond_the_classes_is_named() -> None:
    layers = (data("x", 3), fc("p", 2, "x", activation="softmax"), data("label", 1))
    net = network(graph(*layers, Layer("cost", "cross_entropy", 1, ("p", "label"))))
    net(tensors({"x": X, "label": np.array([0, 1, 1, 0])}))
    with pytest.raises(InputError, match="'label' gives the label 2, but 'p' has 2 classes"):
        net(tensors({"x": X, "label": np.array([0, 1, 2, 0])}))


def test_a_cost_passes_nothing_back_to_what_is_right() -> None:
    layers = (data("x", 3), fc("a", 2, "x"), fc("b", 2, "x"), Layer("cost", "square_error", 1, ("a", "b")))
    net = network(graph(*layers))
    batch = tensors({"x": X})
    net.loss(net(batch), batch).backward()
    gradients = {name: parameter.grad for name, parameter in net.named_parameters()}
    assert gradients["_a.w0"].any() and not gradients["_b.w0"].any()


@pytest.mark.parametrize(
    ("layer", "batch", "message"),
    [
        (fc("out", 2, "x"), {"x": np.zeros((4, 5))}, "data layer 'x' has size 3, but its provider gives vectors of 5"),
        (fc("out", 2, "x"), {"x": np.array([1, 2])}, "used as a vector, but its provider gives one id"),
        (
            fc("out", 2, "x"),
            {"x": Ragged(np.array([1, 3]), np.array([0, 2]))},
            "has size 3, but its provider gives the id 3",
        ),
        (
            fc("out", 2, "x"),
            {"x": Ragged(np.array([-1]), np.array([0, 1]))},
            "has size 3, but its provider gives the id -1",
        ),
        (fc("out", 2, "x"), {"y": X}, "gives no data for data layer 'x'; it has y"),
        (mixed("out", 2, Projection("table", "x", 2, "w")), {"x": X}, "used as ids, but its provider gives vectors"),
        (
            Layer("out", "pool", 3, ("x",), options={"how": "max"}, line=9),
            {"x": X},
            "layer 'out' of line 9: 'x' is not a sequence",
        ),
    ],
)
def test_data_that_do_not_fit_the_config_are_named(layer: Layer, batch: dict[str, Any], message: str) -> None:
    net = network(graph(data("x", 3), layer))
    with pytest.raises(InputError, match=message):
        net(tensors(batch))


def test_inputs_of_different_lengths_are_named() -> None:
    net = network(graph(data("s", 3), data("x", 3), fc("out", 2, "s", "x")))
    with pytest.raises(InputError, match="'s' has 9 lines in a batch, but 'x' has 4"):
        net(tensors({"s": STEPS, "x": X}))
