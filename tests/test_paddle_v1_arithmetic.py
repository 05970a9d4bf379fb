"""Arithmetic of layers, projections side by side, windows of sequences, and the k best: as layers, and as numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.test_paddle_v1_language import graph as config
from tests.v1_graphs import FULL, check_gradients, data, fc, graph, network, result, tensors, values
from umiak.data.columns import Ragged
from umiak.errors import InputError
from umiak.paddle_v1.graph import Evaluator, Graph, Layer, Projection
from umiak.paddle_v1.network.evaluators import metrics

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((4, 3))
FULL_STEPS = Ragged(RANDOM.standard_normal((11, 3)), FULL)


def layers_of(made: Graph) -> list[tuple[str, str, int, tuple[str, ...]]]:
    return [
        (layer.name, layer.kind, layer.size, layer.inputs) for layer in made.layers.values() if layer.kind != "data"
    ]


def test_arithmetic_makes_the_layers_that_v1_made(tmp_path: Path) -> None:
    made = config(
        tmp_path,
        "a = data_layer(name='a', size=3)\nb = data_layer(name='b', size=3)\nc = data_layer(name='c', size=1)\n"
        "x = 1 - a\ny = (a - b) * 2\nz = c + a\nu = c * a\nv = layer_math.exp(a)\nw = 5 + a\n"
        "e = embedding_layer(input=data_layer(name='i', size=4), size=3) + fc_layer(input=b, size=3)\n"
        "outputs(x, y, z, u, v, w, e)\n",
    )
    assert layers_of(made) == [
        ("__slope_intercept_layer_0__", "slope_intercept", 3, ("a",)),
        ("__slope_intercept_layer_1__", "slope_intercept", 3, ("__slope_intercept_layer_0__",)),
        ("__slope_intercept_layer_2__", "slope_intercept", 3, ("b",)),
        ("__mixed_0__", "mixed", 3, ("a", "__slope_intercept_layer_2__")),
        ("__slope_intercept_layer_3__", "slope_intercept", 3, ("__mixed_0__",)),
        ("__repeat_layer_0__", "repeat", 3, ("c",)),
        ("__mixed_1__", "mixed", 3, ("a", "__repeat_layer_0__")),
        ("__scaling_layer_0__", "scaling", 3, ("c", "a")),
        ("__exp_0__", "mixed", 3, ("a",)),
        ("__slope_intercept_layer_4__", "slope_intercept", 3, ("a",)),
        ("__embedding_0__", "mixed", 3, ("i",)),
        ("__fc_layer_0__", "fc", 3, ("b",)),
        ("__mixed_2__", "mixed", 3, ("__embedding_0__", "__fc_layer_0__")),
    ]
    numbers = [layer.options for layer in made.layers.values() if layer.kind == "slope_intercept"]
    assert [(n["slope"], n["intercept"]) for n in numbers] == [(-1, 0), (1, 1), (-1, 0), (2, 0), (1, 5)]


def test_a_layer_minus_a_number_adds_it_as_v1_did_and_says_so(tmp_path: Path) -> None:
    made = config(tmp_path, "outputs(data_layer(name='a', size=3) - 2)\n")
    assert made.layers["__slope_intercept_layer_0__"].options == {"slope": 1.0, "intercept": 2.0}
    assert "config.py:3: a layer minus a number adds it" in made.warnings[0]


def test_the_functions_of_layers_are_a_module_of_either_name(tmp_path: Path) -> None:
    source = "from paddle.trainer_config_helpers import math\noutputs(math.square(data_layer(name='a', size=3)))\n"
    made = config(tmp_path, source, version="0.9")
    assert made.layers["__square_0__"].activation == "square"
    source = "import paddle.trainer_config_helpers.layer_math as lm\noutputs(lm.log(data_layer(name='a', size=3)))\n"
    assert config(tmp_path, source).layers["__log_0__"].activation == "log"


def test_concat_takes_projections_with_parameters_of_their_own(tmp_path: Path) -> None:
    made = config(
        tmp_path,
        "a = data_layer(name='a', size=3)\n"
        "outputs(concat_layer(input=[full_matrix_projection(a, size=4), identity_projection(a)], bias_attr=True))\n",
    )
    assert (made.layers["__concat_0__"].kind, made.layers["__concat_0__"].size) == ("concat2", 7)
    shapes = {name: parameter.shape for name, parameter in made.parameters.items()}
    assert shapes == {"___concat_0__.w0": (3, 4), "___concat_0__.wbias": (7,)}


def test_sums_products_and_repetitions_of_layers_are_computed_line_by_line() -> None:
    layers = (
        data("x", 3),
        fc("a", 2, "x"),
        fc("b", 1, "x"),
        Layer("turned", "slope_intercept", 2, ("a",), options={"slope": -2.0, "intercept": 0.5}),
        Layer("scaled", "scaling", 2, ("b", "turned")),
        Layer("out", "repeat", 6, ("scaled",), options={"times": 3}),
    )
    net = network(graph(*layers))
    w = values(net)
    a, b = (np.tanh(X @ w[f"_{name}.w0"] + w[f"_{name}.wbias"]) for name in "ab")
    np.testing.assert_allclose(result(net, {"x": X}), np.tile(b * (0.5 - 2 * a), (1, 3)))
    check_gradients(net, {"x": X})


def test_projections_side_by_side_have_one_bias_and_one_activation() -> None:
    projections = (
        Projection("full_matrix", "a", 3, "_out.w0"),
        Projection("dotmul", "a", 2, "_out.w1"),
        Projection("trans_full_matrix", "x", 2, "_out.w2"),
    )
    out = Layer("out", "concat2", 7, ("a", "a", "x"), bias="_out.wbias", activation="tanh", projections=projections)
    net = network(graph(data("x", 3), fc("a", 2, "x"), out))
    w = values(net)
    a = np.tanh(X @ w["_a.w0"] + w["_a.wbias"])
    parts = np.hstack([a @ w["_out.w0"], a * w["_out.w1"], X @ w["_out.w2"].T])
    np.testing.assert_allclose(result(net, {"x": X}), np.tanh(parts + w["_out.wbias"]))
    check_gradients(net, {"x": X})


@pytest.mark.parametrize(
    ("kind", "lines"), [("last_seq", [1, 2, 3, 5, 7, 9, 10]), ("first_seq", [0, 1, 3, 4, 6, 7, 9])]
)
def test_a_stride_takes_one_line_of_each_window_which_first_seq_counts_from_the_end(
    kind: str, lines: list[int]
) -> None:
    """As v1's own example: 9 steps by 5 are 5 and 4 for the last lines, and 4 and 5 for the first."""
    ends = Layer("ends", kind, 2, ("a",), options={"level": "non-seq", "stride": 2})
    net = network(
        graph(data("s", 3), fc("a", 2, "s"), ends, Layer("out", "pool", 2, ("ends",), options={"how": "sum"}))
    )
    w = values(net)
    steps = np.tanh(FULL_STEPS.values @ w["_a.w0"] + w["_a.wbias"])[lines]
    expected = [run.sum(0) for run in np.split(steps, [2, 3, 4])]
    np.testing.assert_allclose(result(net, {"s": FULL_STEPS}), expected)
    check_gradients(net, {"s": FULL_STEPS})


def test_a_label_among_the_k_best_is_right_and_the_log_names_k() -> None:
    layers = (data("p", 3), data("label", 3), Layer("cost", "square_error", 1, ("p", "p")))
    error = Evaluator("e", "classification_error", ("p", "label"), {"top_k": 2})
    made = graph(*layers, evaluators=(error,))
    batch = {"p": np.array([[0.1, 0.7, 0.2], [0.5, 0.4, 0.1], [0.2, 0.1, 0.7]]), "label": np.array([2, 1, 1])}
    metric, total = metrics(made)["top_2_error"], np.zeros(2)
    metric.add(total, network(made)(tensors(batch)), batch)
    assert total.tolist() == [1, 3]


@pytest.mark.parametrize(
    "source",
    ["last_seq(input=d, stride=2)", "classification_error_evaluator(input=d, label=d, top_k=2)"],
)
def test_what_came_with_0_10_is_refused_in_0_9(tmp_path: Path, source: str) -> None:
    lines = f"d = data_layer(name='d', size=3)\n{source}\noutputs(d)\n"
    config(tmp_path, lines)
    with pytest.raises(InputError, match=r"config\.py:4: .* came with 0\.10"):
        config(tmp_path, lines, version="0.9")
