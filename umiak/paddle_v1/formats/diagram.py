"""A v1 graph as text for Graphviz, in the words of the original: layers with type, activation and bias, edges with parameters."""

from __future__ import annotations

from umiak.paddle_v1.formats.modelconfig import active_type, inputs_of, type_of
from umiak.paddle_v1.graph import Graph, Layer


def dot(graph: Graph) -> str:
    number = {name: index for index, name in enumerate(graph.layers)}
    lines = ["digraph graphname {", "node [width=0.375,height=0.25];"]
    lines += [f'l{number[name]} [label="{_label(layer)}", shape=box];' for name, layer in graph.layers.items()]
    for name, layer in graph.layers.items():
        lines += [f'l{number[source]} -> l{number[name]} [label="{label}"];' for source, label, _ in inputs_of(layer)]
    return "\n".join([*lines, "}", ""])


def _label(layer: Layer) -> str:
    first = f"{layer.name} type={type_of(layer)}" + (" <==" if layer.options.get("reverse") else "")
    act = active_type(layer)
    second = (f"act={act} " if act else "") + (f"bias={layer.bias} " if layer.bias else "")
    return f"{first}\\l{second}" if second else first
