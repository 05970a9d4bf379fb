"""A v1 graph as `umiak show` tells it: its layers with what they read and train."""

from __future__ import annotations

from umiak.paddle_v1.graph import Graph, Layer
from umiak.spec.outline import Part


def parts(graph: Graph) -> tuple[Part, ...]:
    return tuple(
        Part(layer.name, _kind(layer), f"{layer.size:,}", layer.inputs, layer.used) for layer in graph.layers.values()
    )


def _kind(layer: Layer) -> str:
    """A layer in few words: what it is, with what is not usual for its kind."""
    words = [layer.kind]
    if layer.projections:
        words = [" + ".join(projection.kind for projection in layer.projections)]
    if "how" in layer.options:
        words.append(str(layer.options["how"]))
    if layer.options.get("reverse"):
        words.append("backwards")
    if "scale" in layer.options:
        words.append(f"× {layer.options['scale']:g}")
    if layer.activation != "linear":
        words.append(layer.activation)
    if layer.drop_rate:
        words.append(f"dropout {layer.drop_rate:g}")
    return ", ".join(words)
