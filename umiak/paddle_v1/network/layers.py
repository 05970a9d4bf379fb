"""The layers of a v1 network, one class per kind: each computes its value from those of its inputs. Costs are in costs.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from umiak.errors import InputError
from umiak.nn.sequence import context, largest, total
from umiak.nn.sparse import SparseEmbedding
from umiak.paddle_v1.graph import Layer, Projection
from umiak.paddle_v1.network import lstm_steps
from umiak.paddle_v1.network.affine import ACTIVATIONS, FUSED, OTHERS, affine
from umiak.paddle_v1.network.lstm import lstm
from umiak.paddle_v1.network.padding import padding
from umiak.paddle_v1.network.rows import lookup, product
from umiak.paddle_v1.network.values import Sparse, Value, lines

Weight: TypeAlias = Tensor | SparseEmbedding
Weights: TypeAlias = Callable[[str], Weight]
IDS, LABELS, VECTORS = "ids", "labels", "vectors"
"""How a layer uses an input; a data layer is read accordingly. The size of one that gives labels says nothing about them."""


class Step:
    """A layer at work. `uses` says what it takes, in the order in which it is given the values."""

    def __init__(self, layer: Layer, weights: Weights) -> None:
        self.name, self.line, self.drop_rate = layer.name, layer.line, layer.drop_rate
        self.uses: list[tuple[str, str]] = [(name, VECTORS) for name in layer.inputs]

    def __call__(self, values: list[Any], training: bool) -> Value:
        value = self.compute(values)
        if self.drop_rate:
            return Value(_drop(value.data, self.drop_rate, training), value.levels)
        return value

    def compute(self, values: list[Any]) -> Value:
        raise AssertionError(f"{type(self).__name__} does not say what it computes")

    def error(self, what: str) -> InputError:
        return InputError(f"layer {self.name!r} of line {self.line}: {what}")

    def together(self, values: Sequence[Value | Sparse]) -> tuple[Tensor, ...]:
        """The sequences of values that belong together line by line."""
        first, levels = lines(values[0]), values[0].levels
        for (name, _), value in zip(self.uses, values, strict=True):
            if lines(value) != first:
                raise self.error(
                    f"{self.uses[0][0]!r} has {first} lines in a batch, but {name!r} has {lines(value)}: "
                    "are they sequences of different lengths, or one of them no sequence?"
                )
            if len(value.levels) > len(levels):
                levels = value.levels
        return levels

    def steps(self, value: Value) -> Tensor:
        """Where each sample's sequence begins; its last entry is the number of lines."""
        if not value.levels:
            raise self.error(f"{self.uses[0][0]!r} is not a sequence: declare it as one in the provider")
        offsets = value.levels[0]
        for inner in value.levels[1:]:
            offsets = inner[offsets]
        return offsets

    def dense(self, value: Value | Sparse, name: str) -> Tensor:
        if isinstance(value, Sparse):
            raise self.error(f"{name!r} is sparse; only fc_layer and full_matrix_projection take sparse vectors")
        return value.data


class Term(NamedTuple):
    """A summand of an fc or mixed layer."""

    projection: Projection
    weight: Weight | None


class Sum(Step):
    """fc and mixed: a sum of projections of the inputs, a bias, an activation."""

    def __init__(self, layer: Layer, weights: Weights) -> None:
        super().__init__(layer, weights)
        projections = layer.projections or tuple(
            Projection("full_matrix", name, layer.size, parameter)
            for name, parameter in zip(layer.inputs, layer.parameters, strict=True)
        )
        self.uses = [(p.input, IDS if p.kind == "table" else VECTORS) for p in projections]
        self.terms = [Term(p, weights(p.parameter) if p.parameter is not None else None) for p in projections]
        self.bias = _tensor(weights(layer.bias), layer) if layer.bias is not None else None
        self.activation = _known(layer, layer.activation, ACTIVATIONS)

    def compute(self, values: list[Any]) -> Value:
        levels = self.together(values)
        factors: list[Tensor] = []
        matrices: list[Tensor] = []
        others: list[Tensor] = []
        for term, value in zip(self.terms, values, strict=True):
            if isinstance(value, Sparse) or term.projection.kind not in ("full_matrix", "trans_full_matrix"):
                others.append(self._other(term, value))
            else:
                factors.append(value.data)
                matrices.append(self._matrix(term))
        if not factors and len(others) == 1 and self.bias is None and self.activation == "linear":
            return Value(others[0], levels)
        out = affine(factors, matrices, others, self.bias, self.activation if self.activation in FUSED else "linear")
        return _activated(out, self.activation, levels)

    def _matrix(self, term: Term) -> Tensor:
        if not isinstance(term.weight, Tensor):
            raise self.error(
                f"{term.projection.parameter!r} has sparse_update=True, but {term.projection.input!r} is not sparse: leave it out"
            )
        return term.weight.t() if term.projection.kind == "trans_full_matrix" else term.weight

    def _other(self, term: Term, value: Any) -> Tensor:
        kind, options = term.projection.kind, term.projection.options
        if kind == "full_matrix":
            return product(*_rows(term.weight, value.data.ids), value.data)
        if kind == "table":
            return lookup(*_rows(term.weight, value.data))
        data = self.dense(value, term.projection.input)
        if kind == "context":
            offsets, start, length = self.steps(value), options["start"], options["length"]
            windows = context(data, offsets, start, length)
            return windows if term.weight is None else windows + padding(self._matrix(term), offsets, start, length)
        if kind == "identity":
            at = options.get("offset", 0)
            return data[:, at : at + term.projection.size]
        if kind in ("dotmul", "scaling") and isinstance(term.weight, Tensor):
            return data * term.weight.view(-1)
        raise self.error(f"{kind} is not a projection of {term.projection.input!r}")


class Pool(Step):
    def __init__(self, layer: Layer, weights: Weights) -> None:
        super().__init__(layer, weights)
        self.how = _known(layer, layer.options["how"], ("max", "avg", "sum"))
        self.inner = layer.options.get("level") == "seq"
        self.bias = _tensor(weights(layer.bias), layer) if layer.bias is not None else None
        self.activation = _known(layer, layer.activation, FUSED)

    def compute(self, values: list[Any]) -> Value:
        value = values[0]
        data, (offsets, levels) = self.dense(value, self.uses[0][0]), self.runs(value)
        out = largest(data, offsets) if self.how == "max" else total(data, offsets, self.how == "avg")
        if self.bias is not None or self.activation != "linear":
            out = affine((), (), (out,), self.bias, self.activation)
        return Value(out, levels)

    def runs(self, value: Value) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The runs of lines that become one line each, and the sequences of those."""
        if not self.inner:
            return self.steps(value), ()
        if len(value.levels) < 2:
            raise self.error(f"agg_level asks for inner sequences, but {self.uses[0][0]!r} has none")
        return value.levels[-1], value.levels[:-1]


class End(Pool):
    """The first or last line of each sequence; with a stride, of each window of so many lines."""

    def __init__(self, layer: Layer, weights: Weights) -> None:
        Step.__init__(self, layer, weights)
        self.inner = layer.options.get("level") == "seq"
        self.last = layer.kind == "last_seq"
        self.stride = int(layer.options.get("stride", -1))

    def runs(self, value: Value) -> tuple[Tensor, tuple[Tensor, ...]]:
        if self.stride < 0:
            return super().runs(value)
        if len(value.levels) != 1:
            raise self.error(f"stride is for sequences without inner ones, but {self.uses[0][0]!r} is none of these")
        return windows(value.levels[0], self.stride, from_the_end=not self.last)

    def compute(self, values: list[Any]) -> Value:
        value = values[0]
        data, (offsets, levels) = self.dense(value, self.uses[0][0]), self.runs(value)
        if bool((offsets[1:] == offsets[:-1]).any()):
            raise self.error(f"a sequence of {self.uses[0][0]!r} is empty and has neither first nor last")
        return Value(data[offsets[1:] - 1 if self.last else offsets[:-1]], levels)


class LSTM(Step):
    def __init__(self, layer: Layer, weights: Weights) -> None:
        super().__init__(layer, weights)
        weight = layer.parameters[0]
        assert weight is not None
        self.weight = _tensor(weights(weight), layer)
        self.bias = _tensor(weights(layer.bias), layer) if layer.bias is not None else None
        kinds = (layer.activation, layer.options.get("gate_activation"), layer.options.get("state_activation"))
        self.kinds = [
            _known(layer, kind or default, lstm_steps.ACTIVATIONS)
            for kind, default in zip(kinds, ("tanh", "sigmoid", "tanh"), strict=True)
        ]
        self.reverse = bool(layer.options.get("reverse"))

    def compute(self, values: list[Any]) -> Value:
        value = values[0]
        data = self.dense(value, self.uses[0][0])
        activation, gate, state = self.kinds
        out = lstm(
            data,
            self.steps(value),
            self.weight,
            self.bias,
            reverse=self.reverse,
            activation=activation,
            gate_activation=gate,
            state_activation=state,
        )
        return Value(out, value.levels)


class Concat(Step):
    def __init__(self, layer: Layer, weights: Weights) -> None:
        super().__init__(layer, weights)
        self.bias = _tensor(weights(layer.bias), layer) if layer.bias is not None else None
        self.activation = _known(layer, layer.activation, ACTIVATIONS)

    def compute(self, values: list[Any]) -> Value:
        levels = self.together(values)
        return self.activated(torch.cat(self.parts(values), 1), levels)

    def parts(self, values: list[Any]) -> list[Tensor]:
        return [self.dense(value, name) for value, (name, _) in zip(values, self.uses, strict=True)]

    def activated(self, out: Tensor, levels: tuple[Tensor, ...]) -> Value:
        if self.bias is not None or self.activation in FUSED[1:]:
            out = affine((), (), (out,), self.bias, self.activation if self.activation in FUSED else "linear")
        return _activated(out, self.activation, levels)


class ConcatProjections(Sum):
    """Projections side by side."""

    def compute(self, values: list[Any]) -> Value:
        levels = self.together(values)
        parts = [self._part(term, value) for term, value in zip(self.terms, values, strict=True)]
        fused = self.activation if self.activation in FUSED else "linear"
        return _activated(affine((), (), (torch.cat(parts, 1),), self.bias, fused), self.activation, levels)

    def _part(self, term: Term, value: Any) -> Tensor:
        if isinstance(value, Sparse) or term.projection.kind not in ("full_matrix", "trans_full_matrix"):
            return self._other(term, value)
        return affine((value.data,), (self._matrix(term),), (), None, "linear")


class AddTo(Concat):
    def compute(self, values: list[Any]) -> Value:
        levels = self.together(values)
        first, *rest = self.parts(values)
        for part in rest:
            first = first + part
        return self.activated(first, levels)


class SlopeIntercept(Step):
    def __init__(self, layer: Layer, weights: Weights) -> None:
        super().__init__(layer, weights)
        self.slope, self.intercept = layer.options["slope"], layer.options["intercept"]

    def compute(self, values: list[Any]) -> Value:
        return Value(self.dense(values[0], self.uses[0][0]) * self.slope + self.intercept, values[0].levels)


class Scaling(Step):
    """Each line of the second input times the number in the same line of the first."""

    def compute(self, values: list[Any]) -> Value:
        levels = self.together(values)
        factor, data = (self.dense(value, name) for value, (name, _) in zip(values, self.uses, strict=True))
        return Value(data * factor, levels)


class Repeat(Step):
    def __init__(self, layer: Layer, weights: Weights) -> None:
        super().__init__(layer, weights)
        self.times = layer.options["times"]

    def compute(self, values: list[Any]) -> Value:
        return Value(self.dense(values[0], self.uses[0][0]).repeat(1, self.times), values[0].levels)


class CosSim(Step):
    def __init__(self, layer: Layer, weights: Weights) -> None:
        super().__init__(layer, weights)
        self.scale = float(layer.options["scale"])

    def compute(self, values: list[Any]) -> Value:
        levels = self.together(values)
        a, b = (self.dense(value, name) for value, (name, _) in zip(values, self.uses, strict=True))
        squares = (a * a).sum(1, keepdim=True) * (b * b).sum(1, keepdim=True)
        if bool((squares == 0).any()):
            raise self.error(
                "the cosine with a vector of zeros is undefined; give its layers a bias or different initial values"
            )
        return Value((a * b).sum(1, keepdim=True) * squares.rsqrt() * self.scale, levels)


class MaxId(Step):
    """The number of the largest value of each line."""

    def compute(self, values: list[Any]) -> Value:
        return Value(self.dense(values[0], self.uses[0][0]).argmax(1), values[0].levels)


LAYERS: dict[str, type[Step]] = {
    "fc": Sum,
    "mixed": Sum,
    "pool": Pool,
    "lstmemory": LSTM,
    "concat": Concat,
    "concat2": ConcatProjections,
    "addto": AddTo,
    "slope_intercept": SlopeIntercept,
    "scaling": Scaling,
    "repeat": Repeat,
    "cos_sim": CosSim,
    "last_seq": End,
    "first_seq": End,
    "maxid": MaxId,
}


def windows(offsets: Tensor, stride: int, from_the_end: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Sequences cut into windows, and the sequences of these. A shorter window is the last, or the first `from_the_end`."""
    counts = (offsets.diff() + stride - 1).div(stride, rounding_mode="floor")
    sequences = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    number = torch.arange(int(sequences[-1])) - sequences[:-1].repeat_interleave(counts)
    begins = offsets[:-1].repeat_interleave(counts)
    if from_the_end:
        cut = offsets[1:].repeat_interleave(counts) - (counts.repeat_interleave(counts) - number) * stride
        starts = torch.maximum(begins, cut)
    else:
        starts = begins + number * stride
    return torch.cat([starts, offsets[-1:]]), (sequences,)


def _drop(data: Tensor, rate: float, training: bool) -> Tensor:
    """As in 2016: nothing is scaled up in training, everything is scaled down outside it."""
    return data * torch.empty_like(data).bernoulli_(1 - rate) if training else data * (1 - rate)


def _activated(out: Tensor, activation: str, levels: tuple[Tensor, ...]) -> Value:
    """What is left to do after the activations that affine() computes."""
    if activation in FUSED:
        return Value(out, levels)
    return Value(OTHERS[activation](out), levels, out if activation == "softmax" else None)


def _rows(weight: Weight | None, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Rows that cover these ids, and the position of each id's row."""
    assert weight is not None
    return weight.rows(ids) if isinstance(weight, SparseEmbedding) else (weight, ids)


def _tensor(weight: Weight, layer: Layer) -> Tensor:
    if isinstance(weight, SparseEmbedding):
        raise InputError(
            f"layer {layer.name!r} of line {layer.line}: {weight.name!r} has sparse_update=True, which is for weights of "
            "embeddings and of sparse inputs only: leave it out"
        )
    return weight


def _known(layer: Layer, name: str, known: Sequence[str]) -> str:
    if name not in known:
        raise InputError(
            f"layer {layer.name!r} of line {layer.line}: {name!r} is not possible here; it can be {', '.join(known)}"
        )
    return name
