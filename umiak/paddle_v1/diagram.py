"""A v1 graph as text for Graphviz, in the words of the original: layers with type, activation and bias, edges with parameters."""

from __future__ import annotations

from collections.abc import Iterator

from umiak.paddle_v1.graph import Graph, Layer

POOLS = {"max": "max", "avg": "average", "sum": "average"}
TYPES = {
    "cos_sim": "cos",
    "last_seq": "seqlastins",
    "first_seq": "seqlastins",
    "cross_entropy": "multi-class-cross-entropy",
}
"""Of layers whose kind (graph.py) is not what v1 calls their type."""


def type_of(layer: Layer) -> str:
    """What v1 calls a layer of this kind."""
    if layer.kind == "pool":
        return POOLS[layer.options["how"]]
    return TYPES.get(layer.kind, layer.kind)


def dot(graph: Graph) -> str:
    number = {name: index for index, name in enumerate(graph.layers)}
    lines = ["digraph graphname {", "node [width=0.375,height=0.25];"]
    lines += [f'l{number[name]} [label="{_label(layer)}", shape=box];' for name, layer in graph.layers.items()]
    for name, layer in graph.layers.items():
        lines += [f'l{number[source]} -> l{number[name]} [label="{label}"];' for source, label in _inputs(layer)]
    return "\n".join([*lines, "}", ""])


def _label(layer: Layer) -> str:
    first = f"{layer.name} type={type_of(layer)}" + (" <==" if layer.options.get("reverse") else "")
    second = f"act={layer.activation} " if layer.activation != "linear" else ""
    second += f"bias={layer.bias} " if layer.bias else ""
    return f"{first}\\l{second}" if second else first


def _inputs(layer: Layer) -> Iterator[tuple[str, str]]:
    """Each input with the name of its parameter, empty where it has none."""
    if layer.projections:
        yield from ((projection.input, projection.parameter or "") for projection in layer.projections)
        return
    parameters = (*layer.parameters, *[None] * len(layer.inputs))
    yield from ((name, parameter or "") for name, parameter in zip(layer.inputs, parameters, strict=False))
