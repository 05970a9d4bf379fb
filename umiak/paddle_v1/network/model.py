"""A v1 graph as a torch module: batch in, the values of its outputs, costs and evaluators out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn

from umiak.data.columns import count
from umiak.errors import InputError
from umiak.paddle_v1.formats import outline
from umiak.paddle_v1.graph import Graph, Layer
from umiak.paddle_v1.network import initialise, values
from umiak.paddle_v1.network.costs import COSTS
from umiak.paddle_v1.network.layers import IDS, LABELS, LAYERS, VECTORS, Step, Weight
from umiak.paddle_v1.network.values import Value
from umiak.spec.outline import Part


class Output(NamedTuple):
    """What a forward pass leaves: `costs` are per line, `values` those of the outputs and of the evaluators' inputs."""

    samples: int
    costs: tuple[Tensor, ...]
    values: Mapping[str, Value]


class _Read(NamedTuple):
    """A data layer in one kind of use."""

    layer: Layer
    use: str

    def __call__(self, batch: Mapping[str, Any]) -> Any:
        name, size = self.layer.name, self.layer.size
        if name not in batch:
            raise InputError(f"the provider gives no data for data layer {name!r}; it has {', '.join(batch)}")
        if self.use in (IDS, LABELS):
            return values.ids(batch[name], name, size if self.use == IDS else None)
        return values.vectors(batch[name], batch.get(name + values.WEIGHTS), name, size)


class V1Model(nn.Module):
    """The layers that outputs and evaluators need, in the order of the config.

    Parameters have their v1 names and shapes (matrices are [in, out]); those with sparse_update=True are tables on the servers.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        layers = graph.needed()
        used = {name for layer in layers for name in layer.used}
        fields = _table_fields(layers)
        weights: dict[str, Weight] = {}
        tables = nn.ModuleList()
        for name, parameter in graph.parameters.items():
            if name not in used:
                continue
            if parameter.sparse:
                weights[name] = table = initialise.table(parameter, _data_fields(graph, name, fields.get(name, [])))
                tables.append(table)
            else:
                weights[name] = tensor = initialise.tensor(parameter)
                initialise.attach(self, name, tensor)
        self._modules["sparse tables"] = tables
        self._reads: list[_Read] = []
        self._steps: list[tuple[Step, list[int]]] = []
        self._places: dict[tuple[str, str], int] = {}
        data = {layer.name: layer for layer in layers if layer.kind == "data"}
        steps = [_KINDS[layer.kind](layer, weights.__getitem__) for layer in layers if layer.kind != "data"]
        evaluated = [
            use
            for evaluator in graph.evaluators
            for use in zip(evaluator.inputs, (VECTORS, LABELS, VECTORS), strict=False)
        ]
        shown = {**{name: VECTORS for name in graph.outputs}, **dict(evaluated)}
        for name, use in [*(use for step in steps for use in step.uses), *evaluated, *shown.items()]:
            if name in data and (name, use) not in self._places:
                self._places[name, use] = len(self._reads)
                self._reads.append(_Read(data[name], use))
        for number, step in enumerate(steps, len(self._reads)):
            self._steps.append((step, [self._places[use] for use in step.uses]))
            self._places.update({(step.name, use): number for use in (IDS, LABELS, VECTORS)})
        self._costs = [self._places[name, VECTORS] for name in graph.outputs if graph.layers[name].is_cost]
        self._shown = {name: self._places[name, use] for name, use in shown.items()}

    def forward(self, batch: Mapping[str, Any]) -> Output:
        found: list[Any] = [read(batch) for read in self._reads]
        training = self.training
        for step, places in self._steps:
            found.append(step([found[place] for place in places], training))
        return Output(
            count(next(iter(batch.values()))),
            tuple(found[place].data for place in self._costs),
            {name: found[place] for name, place in self._shown.items()},
        )

    def outlined(self) -> tuple[Part, ...]:
        """Its layers, for whoever draws it."""
        return outline.parts(self.graph)

    @staticmethod
    def loss(output: Output, batch: Mapping[str, Any]) -> Tensor:
        """The sum of all costs, divided by the samples because that is what the engine expects of a loss."""
        if not output.costs:
            raise InputError("outputs(…) names no cost, so there is nothing to train: give it a cost layer")
        first, *rest = (cost.sum() for cost in output.costs)
        for cost in rest:
            first = first + cost
        return first / output.samples


_KINDS: dict[str, type[Step]] = {**LAYERS, **COSTS}


def _table_fields(layers: Iterable[Layer]) -> dict[str, list[str]]:
    """The inputs whose ids each parameter is looked up by; those of a table are data layers."""
    fields: dict[str, list[str]] = {}
    for layer in layers:
        pairs = [
            *zip(layer.parameters, layer.inputs, strict=False),
            *((p.parameter, p.input) for p in layer.projections),
        ]
        for parameter, name in pairs:
            if parameter is not None and name not in fields.setdefault(parameter, []):
                fields[parameter].append(name)
    return fields


def _data_fields(graph: Graph, parameter: str, fields: list[str]) -> tuple[str, ...]:
    for name in fields:
        if graph.layers[name].kind != "data":
            raise InputError(
                f"parameter {parameter!r} has sparse_update=True, but {name!r} is not a data layer: leave it out there"
            )
    if not fields:
        raise InputError(f"parameter {parameter!r} has sparse_update=True, but is not a matrix: leave it out there")
    return tuple(fields)
