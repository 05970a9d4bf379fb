"""What a v1 config says, as plain values: layers, parameters, training, data. Knows no torch and computes nothing.

The language (language/reading.py, helpers.py) makes a Graph, the network runs it, `umiak show` draws it. Names are v1's, because
they are the file names of snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

COSTS = ("cross_entropy", "square_error")


@dataclass(frozen=True)
class Normal:
    mean: float = 0.0
    std: float = 0.01


@dataclass(frozen=True)
class Uniform:
    low: float
    high: float


Init = Normal | Uniform


@dataclass(frozen=True)
class Parameter:
    """Trained numbers. `learning_rate` multiplies the job's; None takes the job's value; `sparse` makes a table."""

    name: str
    shape: tuple[int, ...]
    init: Init
    learning_rate: float = 1.0
    l1: float | None = None
    l2: float | None = None
    momentum: float | None = None
    clip: float | None = None
    sparse: bool = False
    static: bool = False

    @property
    def elements(self) -> int:
        total = 1
        for side in self.shape:
            total *= side
        return total


@dataclass(frozen=True)
class Projection:
    """One summand of a mixed layer: full_matrix, trans_full_matrix, table, context, identity, dotmul or scaling.

    Options: context has `start` and `length` (beyond both ends stand the lines of its parameter, else zeros); identity has
    `offset` where it takes a slice.
    """

    kind: str
    input: str
    size: int
    parameter: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Layer:
    """One node. `parameters` has an entry per input, None where that input needs none.

    kind: data, fc, mixed, pool (options: how = max, avg or sum; level), lstmemory (reverse, gate_activation,
    state_activation), concat, concat2 (of projections), addto, slope_intercept (slope, intercept), scaling (inputs: factor,
    value), repeat (times), cos_sim (scale), last_seq, first_seq (level, stride), maxid, and the costs: cross_entropy
    (inputs: probabilities, label[, weight]; options: coefficient) and square_error (value, label[, weight]).
    """

    name: str
    kind: str
    size: int
    inputs: tuple[str, ...] = ()
    parameters: tuple[str | None, ...] = ()
    bias: str | None = None
    activation: str = "linear"
    drop_rate: float = 0.0
    projections: tuple[Projection, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    line: int = 0

    @property
    def is_cost(self) -> bool:
        return self.kind in COSTS

    @property
    def used(self) -> tuple[str, ...]:
        """The names of all its parameters, weights first."""
        inner = (projection.parameter for projection in self.projections)
        return tuple(name for name in (*self.parameters, *inner, self.bias) if name is not None)


@dataclass(frozen=True)
class Evaluator:
    """classification_error (inputs: scores, label[, weight]; options: top_k)."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """An update rule: momentum, adagrad, adadelta, rmsprop, decayed_adagrad, adam, adamax, and its numbers by v1's names."""

    name: str = "momentum"
    numbers: Mapping[str, float] = field(default_factory=lambda: {"momentum": 0.0})


@dataclass(frozen=True)
class Schedule:
    """poly, constant, exp, discexp, linear, caffe_poly (a, b); manual and pass_manual (segments: until, factor)."""

    name: str = "poly"
    a: float = 0.0
    b: float = 0.0
    segments: tuple[tuple[float, float], ...] = ()

    @property
    def constant(self) -> bool:
        return self.name == "constant" or (self.name == "poly" and (self.a == 0.0 or self.b == 0.0))


@dataclass(frozen=True)
class Training:
    """What settings() says. `l1` and `l2` hold for every parameter that does not say its own."""

    batch_size: int
    learning_rate: float = 1e-3
    method: Method = field(default_factory=Method)
    schedule: Schedule = field(default_factory=Schedule)
    l1: float = 0.0
    l2: float = 0.0
    clip: float | None = None
    is_async: bool = False
    async_lagged_grad_discard_ratio: float = 1.5
    average_window: float = 0.0
    max_average_window: int | None = None

    @property
    def momentum(self) -> float:
        return self.method.numbers.get("momentum", 0.0)


@dataclass(frozen=True)
class DataSource:
    """One half of define_py_data_sources2: data files or the name of their list, and the provider that reads them."""

    list: str | tuple[str, ...]
    module: str
    obj: str
    args: Any = None
    line: int = 0


@dataclass(frozen=True)
class DataSources:
    train: DataSource | None = None
    test: DataSource | None = None


@dataclass(frozen=True)
class Graph:
    """A whole config. Layers and parameters stand in the order of their definition; `files` are what was read for it."""

    layers: Mapping[str, Layer]
    parameters: Mapping[str, Parameter]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    settings: Training
    evaluators: tuple[Evaluator, ...] = ()
    data: DataSources | None = None
    warnings: tuple[str, ...] = ()
    path: str = ""
    files: tuple[str, ...] = ()
    version: str = "0.10"

    def needed(self) -> list[Layer]:
        """The layers that outputs and evaluators are computed from, in the order of the config."""
        wanted = [*self.outputs, *(name for evaluator in self.evaluators for name in evaluator.inputs)]
        found: set[str] = set()
        while wanted:
            name = wanted.pop()
            if name not in found:
                found.add(name)
                layer = self.layers[name]
                wanted += [*layer.inputs, *(projection.input for projection in layer.projections)]
        return [layer for name, layer in self.layers.items() if name in found]
