"""Small v1 networks for tests: graphs by hand, double precision, and gradients by finite differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from umiak.data.columns import Ragged
from umiak.paddle_v1.graph import Evaluator, Graph, Layer, Normal, Parameter, Projection, Training
from umiak.paddle_v1.network.model import Output, V1Model

OFFSETS = np.array([0, 3, 4, 4, 9])
"""Four sequences of lengths 3, 1, 0 and 5."""
FULL = np.array([0, 3, 4, 6, 11])
"""The same kind without an empty one."""


def graph(*layers: Layer, outputs: tuple[str, ...] | None = None, evaluators: tuple[Evaluator, ...] = ()) -> Graph:
    """A graph of these layers; parameters take their shapes from the layers and start at random."""
    named = {layer.name: layer for layer in layers}
    parameters: dict[str, Parameter] = {}
    for layer in layers:
        for name, shape in _shapes(named, layer):
            parameters[name] = Parameter(name, shape, Normal(0.0, 0.5))
    inputs = tuple(layer.name for layer in layers if layer.kind == "data")
    return Graph(named, parameters, inputs, outputs or (layers[-1].name,), Training(batch_size=1), evaluators)


def _shapes(named: Mapping[str, Layer], layer: Layer) -> list[tuple[str, tuple[int, ...]]]:
    found: list[tuple[str, tuple[int, ...]]] = []
    for name, source in zip(layer.parameters, layer.inputs, strict=False):
        if name is not None:
            rows = layer.size if layer.kind == "lstmemory" else named[source].size
            found.append((name, (rows, 4 * layer.size if layer.kind == "lstmemory" else layer.size)))
    for p in layer.projections:
        width = named[p.input].size
        shapes = {"trans_full_matrix": (p.size, width), "dotmul": (1, width), "scaling": (1, 1)}
        shapes["context"] = (p.options.get("lines", 0), width)
        if p.parameter is not None:
            found.append((p.parameter, shapes.get(p.kind, (width, p.size))))
    if layer.bias is not None:
        found.append((layer.bias, (7 * layer.size if layer.kind == "lstmemory" else layer.size,)))
    return found


def data(name: str, size: int) -> Layer:
    return Layer(name, "data", size)


def fc(name: str, size: int, *inputs: str, activation: str = "tanh", bias: bool = True, **more: Any) -> Layer:
    weights = tuple(f"_{name}.w{number}" for number in range(len(inputs)))
    return Layer(name, "fc", size, inputs, weights, f"_{name}.wbias" if bias else None, activation, **more)


def mixed(name: str, size: int, *projections: Projection, **more: Any) -> Layer:
    return Layer(name, "mixed", size, tuple(p.input for p in projections), projections=projections, **more)


def network(made: Graph, seed: int = 0) -> V1Model:
    """In double precision, with gradients at zero where the engine has them too."""
    torch.manual_seed(seed)
    built = V1Model(made).double()
    for parameter in built.parameters():
        parameter.grad = torch.zeros_like(parameter)
    return built


def tensors(batch: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _tensor(value) for name, value in batch.items()}


def _tensor(value: Any) -> Any:
    if isinstance(value, Ragged):
        return Ragged(_tensor(value.values), _tensor(value.offsets))
    return torch.from_numpy(np.ascontiguousarray(value))


def values(net: V1Model) -> dict[str, np.ndarray]:
    """Its parameters by their v1 names."""
    return {name: parameter.detach().numpy() for name, parameter in net.named_parameters()}


def result(net: V1Model, batch: Mapping[str, Any], name: str | None = None) -> np.ndarray:
    """The value of an output."""
    output: Output = net(tensors(batch))
    return output.values[name or net.graph.outputs[0]].data.detach().numpy()


def check_gradients(net: V1Model, batch: Mapping[str, Any], scalar: Callable[[Output], Any] | None = None) -> None:
    """Compare the gradient of every parameter with central differences, as the engine gets it and as autograd gives it."""
    fields = tensors(batch)
    name = net.graph.outputs[0]

    def weighted(output: Output) -> Any:
        value = output.values[name].data
        return (value * torch.from_numpy(np.random.default_rng(5).standard_normal(value.shape))).sum()

    scalar = scalar or weighted
    scalar(net(fields)).backward()
    added = {key: parameter.grad.numpy().copy() for key, parameter in net.named_parameters()}
    parameters = dict(net.named_parameters())
    for parameter in parameters.values():
        parameter.grad = None
    scalar(net(fields)).backward()
    for key, parameter in parameters.items():
        assert parameter.grad is not None, f"{key} has no gradient"
        np.testing.assert_allclose(parameter.grad.numpy(), added[key], rtol=1e-12, atol=1e-14, err_msg=key)
        with torch.no_grad():
            expected = _differences(parameter, lambda: float(scalar(net(fields))))
        np.testing.assert_allclose(added[key], expected, rtol=1e-5, atol=1e-8, err_msg=key)


def _differences(parameter: torch.Tensor, value: Callable[[], float]) -> np.ndarray:
    flat, step = parameter.view(-1), 1e-6
    slopes = np.empty(flat.numel())
    for place in range(flat.numel()):
        before = float(flat[place])
        flat[place] = before + step
        above = value()
        flat[place] = before - step
        slopes[place] = (above - value()) / (2 * step)
        flat[place] = before
    return slopes.reshape(parameter.shape)
