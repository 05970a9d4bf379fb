"""A v1 network as the engine sees it: names, shapes and first values of parameters, tables, and what a step costs."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.trainers import train
from tests.v1_graphs import data, fc, graph, mixed, network, result, tensors
from umiak.data.columns import Columns, Ragged
from umiak.errors import InputError
from umiak.messages.events import Pass
from umiak.nn.sparse import sparse_tables
from umiak.paddle_v1.graph import Graph, Layer, Normal, Projection, Uniform
from umiak.paddle_v1.network.model import V1Model
from umiak.spec.config import Config
from umiak.spec.optim import Adam

WORDS = Ragged(np.array([0, 5, 5, 1, 3]), np.array([0, 2, 3, 5]))


def changed(made: Graph, name: str, **changes: object) -> Graph:
    parameters = {**made.parameters, name: replace(made.parameters[name], **changes)}  # type: ignore[arg-type]
    return replace(made, parameters=parameters)


def test_parameters_have_their_v1_names_and_shapes() -> None:
    text = mixed("__embedding_0__", 4, Projection("table", "word", 4, "___embedding_0__.w0"))
    shared = Layer("training", "fc", 4, ("__embedding_0__",), ("forward",), "training")
    made = graph(data("word", 6), text, shared, fc("out", 2, "training", "__embedding_0__"))
    net = V1Model(made)
    shapes = {name: tuple(parameter.shape) for name, parameter in net.named_parameters()}
    assert shapes == {
        "___embedding_0__.w0": (6, 4),
        "forward": (4, 4),
        "training": (4,),
        "_out.w0": (4, 2),
        "_out.w1": (4, 2),
        "_out.wbias": (2,),
    }
    assert net(tensors({"word": WORDS})).values["out"].data.shape == (5, 2)


def test_data_can_be_an_output_too() -> None:
    lines = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(result(network(graph(data("x", 3))), {"x": lines}), lines)


def test_layers_that_no_output_needs_are_not_built() -> None:
    net = V1Model(graph(data("x", 3), fc("unused", 5, "x"), fc("out", 2, "x")))
    assert {name for name, _ in net.named_parameters()} == {"_out.w0", "_out.wbias"}


def test_first_values_follow_their_description_and_the_seed() -> None:
    made = graph(data("x", 400), fc("out", 300, "x"))
    made = changed(made, "_out.w0", init=Normal(1.0, 0.05))
    made = changed(made, "_out.wbias", init=Uniform(-2.0, -1.0))
    torch.manual_seed(1)
    net = V1Model(made)
    weight, bias = net.get_parameter("_out.w0"), net.get_parameter("_out.wbias")
    assert float(weight.mean().detach()) == pytest.approx(1.0, abs=1e-3)
    assert float(weight.std().detach()) == pytest.approx(0.05, rel=0.02)
    assert -2 <= float(bias.min().detach()) < -1.9
    assert -1.1 < float(bias.max().detach()) <= -1
    torch.manual_seed(1)
    assert torch.equal(V1Model(made).get_parameter("_out.w0"), weight)


def test_a_static_parameter_is_not_trained() -> None:
    net = V1Model(changed(graph(data("x", 3), fc("out", 2, "x")), "_out.w0", static=True))
    assert [name for name, parameter in net.named_parameters() if parameter.requires_grad] == ["_out.wbias"]
    net(tensors({"x": np.zeros((2, 3), np.float32)})).values["out"].data.sum().backward()
    assert net.get_parameter("_out.w0").grad is None


def test_a_copy_of_a_network_has_parameters_of_its_own() -> None:
    net = network(graph(data("x", 3), fc("out", 2, "x")))
    other = copy.deepcopy(net)
    x = np.ones((1, 3))
    before = result(net, {"x": x})
    with torch.no_grad():
        other.get_parameter("_out.wbias").add_(1)
    np.testing.assert_array_equal(result(net, {"x": x}), before)
    assert (result(other, {"x": x}) != before).all()


class Held:
    """Rows of one table that are all here, as a trainer has those of a batch."""

    def __init__(self, rows: torch.Tensor) -> None:
        self.held = rows

    def rows(self, table: str, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.held, ids


@pytest.mark.parametrize("kind", ["table", "full_matrix"])
def test_only_sparse_update_makes_a_table_and_it_computes_the_same(kind: str) -> None:
    made = graph(data("word", 6), mixed("out", 4, Projection(kind, "word", 4, "words")))
    dense, sparse = V1Model(made), V1Model(changed(made, "words", sparse=True, init=Normal(0.0, 0.3)))
    assert list(sparse_tables(dense)) == []
    assert list(sparse_tables(sparse)) == ["words"]
    assert list(sparse.named_parameters()) == []
    table = sparse_tables(sparse)["words"]
    assert (table.dim, table.num_embeddings, table.fields) == (4, 6, ("word",))
    assert table.init == {"kind": "normal", "mean": 0.0, "std": 0.3}
    rows = dense.get_parameter("words").detach().clone().requires_grad_()
    table.source = Held(rows)
    grads = []
    for net, leaf in ((dense, dense.get_parameter("words")), (sparse, rows)):
        out = net(tensors({"word": WORDS})).values["out"].data
        (out * torch.arange(out.numel()).view(out.shape)).sum().backward()
        grads.append((out.detach(), leaf.grad))
    assert torch.equal(grads[0][0], grads[1][0])
    assert torch.equal(grads[0][1], grads[1][1])


def test_sparse_update_where_no_ids_are_looked_up_is_refused() -> None:
    layers = (data("x", 3), fc("a", 2, "x"), fc("out", 2, "a"))
    with pytest.raises(InputError, match=r"'_out.w0' has sparse_update=True, but 'a' is not a data layer"):
        V1Model(changed(graph(*layers), "_out.w0", sparse=True))
    with pytest.raises(InputError, match=r"'_out.wbias' has sparse_update=True, but is not a matrix"):
        V1Model(changed(graph(*layers), "_out.wbias", sparse=True))
    net = V1Model(changed(graph(*layers), "_a.w0", sparse=True))
    with pytest.raises(InputError, match=r"'_a.w0' has sparse_update=True, but 'x' is not sparse"):
        net(tensors({"x": np.zeros((2, 3))}))


def test_a_step_touches_only_the_rows_of_its_batch_and_makes_no_gradient_of_the_whole_table() -> None:
    """A fresh gradient of a large table, added to the one of the engine, is twice the work."""
    rows, dim = 30_000, 128
    made = graph(data("word", rows), mixed("out", dim, Projection("table", "word", dim, "words")))
    net = V1Model(made)
    words = net.get_parameter("words")
    words.grad = torch.zeros_like(words)
    made_by_autograd: list[torch.Tensor | None] = []
    words.register_hook(made_by_autograd.append)
    net(tensors({"word": WORDS})).values["out"].data.sum().backward()
    assert made_by_autograd == [None]
    assert torch.nonzero(words.grad.sum(1)).view(-1).tolist() == [0, 1, 3, 5]


def test_a_network_trains_on_the_engine(tmp_path: Path) -> None:
    """With a dense part and a table: the loss falls, and the snapshot has the v1 files."""
    generator = np.random.default_rng(0)
    ids = generator.integers(0, 50, (400, 5))
    labels = np.asarray((ids < 10).any(1), np.int64)
    words = Ragged(ids.reshape(-1), np.arange(0, 2001, 5))
    text = mixed("text", 8, Projection("table", "word", 8, "_text.w0"))
    pooled = Layer("pooled", "pool", 8, ("text",), options={"how": "sum"})
    end = (fc("p", 2, "pooled", activation="softmax"), data("label", 2))
    cost = Layer("cost", "cross_entropy", 1, ("p", "label"))
    made = changed(graph(data("word", 50), text, pooled, *end, cost), "_text.w0", sparse=True)
    net = V1Model(made)
    config = Config(
        model=lambda: V1Model(made),
        train=Columns({"word": words, "label": labels}),
        test=Columns({"word": words, "label": labels}),
        loss=net.loss,
        optimizer=Adam(lr=0.02),
        batch_size=20,
    )
    passes = [event for event in train(config, tmp_path / "out", num_passes=4) if isinstance(event, Pass)]
    assert passes[-1].test["cost"] < 0.2
    assert (tmp_path / "out" / "pass-00003" / "_text.w0").exists()
    assert (tmp_path / "out" / "pass-00003" / "_p.w0").stat().st_size == 16 + 4 * 16
