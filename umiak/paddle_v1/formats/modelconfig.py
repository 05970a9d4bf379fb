"""A graph as the ModelConfig in which v1 described it: layers by v1's type names, their inputs, projections and parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from umiak.paddle_v1.formats.messages import Message
from umiak.paddle_v1.graph import Graph, Layer, Normal, Parameter, Projection, Training

TYPES = {
    "cos_sim": "cos",
    "last_seq": "seqlastins",
    "first_seq": "seqlastins",
    "repeat": "featmap_expand",
    "cross_entropy": "multi-class-cross-entropy",
}
"""Of layers whose kind (graph.py) is not what v1 calls their type."""
PROJECTIONS = {"full_matrix": "fc", "trans_full_matrix": "trans_fc", "dotmul": "dot_mul"}
POOLS = {"max": "max", "avg": "average", "sum": "average"}
STRATEGIES = {"avg": "average", "sum": "sum"}
LINEAR = ("pool", "last_seq", "first_seq")
"""Layers that say so when they are linear; the others leave their activation empty."""


def type_of(layer: Layer) -> str:
    """What v1 calls a layer of this kind."""
    return POOLS[layer.options["how"]] if layer.kind == "pool" else TYPES.get(layer.kind, layer.kind)


def active_type(layer: Layer) -> str:
    return layer.activation if layer.activation != "linear" or layer.kind in LINEAR else ""


def inputs_of(layer: Layer) -> Iterator[tuple[str, str, Projection | None]]:
    """Each input with the name of its parameter, empty where it has none, and its projection."""
    if layer.projections:
        yield from ((projection.input, projection.parameter or "", projection) for projection in layer.projections)
        return
    parameters = (*layer.parameters, *[None] * len(layer.inputs))
    yield from ((name, parameter or "", None) for name, parameter in zip(layer.inputs, parameters, strict=False))


def model_config(graph: Graph, whole: bool = False) -> Message:
    """The layers that outputs and evaluators need, and their parameters; or the `whole` config, as it is written."""
    layers = list(graph.layers.values()) if whole else graph.needed()
    parameters = [graph.parameters[name] for name in graph.parameters if any(name in layer.used for layer in layers)]
    recurrent = {layer.parameters[0] for layer in layers if layer.kind == "lstmemory"}
    ends = [("input_layer_names", name) for name in graph.inputs] + [("output_layer_names", n) for n in graph.outputs]
    root = [
        ("name", "root"),
        *(("layer_names", layer.name) for layer in layers),
        *ends,
        *(("evaluator_names", evaluator.name) for evaluator in graph.evaluators),
        ("is_recurrent_layer_group", False),
    ]
    return [
        ("type", "nn"),
        *(("layers", _layer(layer, graph)) for layer in layers),
        *(
            ("parameters", _parameter(parameter, graph.settings, parameter.name in recurrent))
            for parameter in parameters
        ),
        *ends,
        *(
            (
                "evaluators",
                [
                    ("name", each.name),
                    ("type", each.kind),
                    *(("input_layers", n) for n in each.inputs),
                    *each.options.items(),
                ],
            )
            for each in graph.evaluators
        ),
        ("sub_models", root),
    ]


def _layer(layer: Layer, graph: Graph) -> Message:
    options = layer.options
    fields: list[tuple[str, Any]] = [("name", layer.name), ("type", type_of(layer)), ("size", layer.size)]
    fields.append(("active_type", active_type(layer)))
    for number, (name, parameter, projection) in enumerate(inputs_of(layer)):
        one: list[tuple[str, Any]] = [("input_layer_name", name)]
        one += [("input_parameter_name", parameter)] if parameter else []
        if projection is not None:
            own = f"_{layer.name}.w{number}"
            one.append(("proj_conf", _projection(projection, own, graph.layers[name].size)))
        fields.append(("inputs", one))
    if layer.bias:
        fields.append(("bias_parameter_name", layer.bias))
    if layer.kind == "repeat":
        fields.append(("num_filters", options["times"]))
    if layer.drop_rate:
        fields.append(("drop_rate", layer.drop_rate))
    match layer.kind:
        case "lstmemory":
            fields.append(("reversed", bool(options["reverse"])))
            fields.append(("active_gate_type", _plain(options["gate_activation"])))
            fields.append(("active_state_type", _plain(options["state_activation"])))
        case "cross_entropy" | "square_error":
            fields.append(("coeff", options.get("coefficient", 1.0)))
        case "pool":
            fields += [("average_strategy", STRATEGIES[options["how"]])] if options["how"] in STRATEGIES else []
            fields.append(("trans_type", options["level"]))
        case "slope_intercept":
            fields += [("slope", options["slope"]), ("intercept", options["intercept"])]
        case "cos_sim":
            fields.append(("cos_scale", options["scale"]))
        case "last_seq" | "first_seq":
            fields += [("select_first", True)] if layer.kind == "first_seq" else []
            fields.append(("trans_type", options["level"]))
            fields += [] if graph.version == "0.9" else [("seq_pool_stride", options.get("stride", -1))]
    return fields


def _plain(activation: str) -> str:
    return "" if activation == "linear" else activation


def _projection(projection: Projection, name: str, input_size: int) -> Message:
    options = projection.options
    kind = PROJECTIONS.get(projection.kind, projection.kind)
    fields: list[tuple[str, Any]] = [
        ("type", "identity_offset" if "offset" in options else kind),
        ("name", name),
        ("input_size", input_size),
        ("output_size", projection.size),
    ]
    if projection.kind == "context":
        fields.append(("context_start", options["start"]))
        fields.append(("context_length", options["length"]))
        fields.append(("trainable_padding", projection.parameter is not None))
    if "offset" in options:
        fields.append(("offset", options["offset"]))
    return fields


def _parameter(parameter: Parameter, training: Training, recurrent: bool) -> Message:
    shape = parameter.shape
    dims = (shape[0], shape[0], 4) if recurrent else shape if len(shape) > 1 else (1, *shape)
    init = parameter.init
    if isinstance(init, Normal):
        mean, spread, strategy = init.mean, init.std, 0
    else:
        mean, spread, strategy = (init.high + init.low) / 2, (init.high - init.low) / 2, 1
    # v1 notes which spread it chose by itself: one over the root of the rows.
    chosen = strategy == 0 and mean == 0 and math.isclose(spread, 1 / math.sqrt(dims[0])) and len(shape) > 1
    decay = parameter.l2 if parameter.l2 is not None else training.l2 or None
    momentum = parameter.momentum if parameter.momentum is not None else training.momentum or None
    clip = parameter.clip if parameter.clip is not None else training.clip
    fields: list[tuple[str, Any]] = [
        ("name", parameter.name),
        ("size", parameter.elements),
        ("learning_rate", parameter.learning_rate if parameter.learning_rate != 1 else None),
        ("momentum", momentum),
        ("initial_mean", mean),
        ("initial_std", spread),
        ("decay_rate", decay),
        ("decay_rate_l1", parameter.l1),
        *(("dims", size) for size in dims),
        ("initial_strategy", strategy),
        ("initial_smart", chosen),
        ("sparse_remote_update", parameter.sparse or None),
        ("gradient_clipping_threshold", clip),
        ("is_static", parameter.static or None),
        ("sparse_update", parameter.sparse or None),
    ]
    return [(name, value) for name, value in fields if value is not None]
