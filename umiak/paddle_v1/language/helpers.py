"""Layers of the v1 language that are not sums of projections: each helper checks its arguments, names its parameters as the
original did, and adds a layer. Mixed layers are mixed.py's part, helpers of several layers composites.py's.
"""

from __future__ import annotations

from typing import Any

from umiak.paddle_v1.graph import Evaluator, Projection
from umiak.paddle_v1.language.attributes import AggregateLevel, BasePoolingType
from umiak.paddle_v1.language.building import Builder, Output, current, helper
from umiak.paddle_v1.language.mixed import Pending


@helper
def data_layer(
    name: str, size: int, height: Any = None, width: Any = None, depth: Any = None, layer_attr: Any = None
) -> Output:
    builder = current()
    return builder.add(builder.name(name, "data"), "data", builder.size(size))


@helper
def fc_layer(
    input: Any,
    size: int,
    act: Any = None,
    name: str | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    layer_attr: Any = None,
) -> Output:
    builder = current()
    inputs, size, name = builder.layers_of(input), builder.size(size), builder.name(name, "fc_layer")
    many = isinstance(param_attr, list | tuple)
    attributes = list(param_attr) if many else [param_attr] * len(inputs)
    if len(attributes) != len(inputs):
        raise builder.error(f"it has {len(inputs)} inputs and {len(attributes)} param_attr; give one for each")
    weights = tuple(
        builder.parameter(attribute, f"_{name}.w{number}", (layer.size, size))
        for number, (layer, attribute) in enumerate(zip(inputs, attributes, strict=True))
    )
    return builder.add(
        name,
        "fc",
        size,
        inputs,
        parameters=weights,
        bias=builder.bias(bias_attr, name, size),
        activation=builder.activation(act, "tanh"),
        drop_rate=builder.drop_rate(layer_attr),
    )


@helper
def pooling_layer(
    input: Any,
    pooling_type: Any = None,
    name: str | None = None,
    bias_attr: Any = None,
    agg_level: str = AggregateLevel.EACH_TIMESTEP,
    layer_attr: Any = None,
) -> Output:
    builder = current()
    layer, name = builder.layer(input), builder.name(name, "seq_pooling")
    kind = pooling_type() if isinstance(pooling_type, type) else pooling_type
    if kind is not None and not isinstance(kind, BasePoolingType):
        raise builder.error(f"pooling_type must be MaxPooling(), AvgPooling() or SumPooling(), not {pooling_type!r}")
    return builder.add(
        name,
        "pool",
        layer.size,
        (layer,),
        bias=builder.bias(bias_attr, name, layer.size, by_default=False),
        drop_rate=builder.drop_rate(layer_attr),
        options={"how": kind.name if kind else "max", "level": _level(builder, agg_level)},
    )


@helper
def last_seq(
    input: Any,
    name: str | None = None,
    agg_level: str = AggregateLevel.EACH_TIMESTEP,
    stride: int = -1,
    layer_attr: Any = None,
) -> Output:
    return _one_step("last_seq", input, name, agg_level, stride, layer_attr)


@helper
def first_seq(
    input: Any,
    name: str | None = None,
    agg_level: str = AggregateLevel.EACH_TIMESTEP,
    stride: int = -1,
    layer_attr: Any = None,
) -> Output:
    return _one_step("first_seq", input, name, agg_level, stride, layer_attr)


def _one_step(kind: str, input: Any, name: str | None, agg_level: str, stride: int, layer_attr: Any) -> Output:
    builder = current()
    layer = builder.layer(input)
    if stride != -1:
        builder.since_10("stride")
        builder.size(stride, "stride")
        if agg_level == AggregateLevel.EACH_SEQUENCE:
            raise builder.error("stride is for sequences without inner ones; leave out agg_level or stride")
    return builder.add(
        builder.name(name, kind),
        kind,
        layer.size,
        (layer,),
        drop_rate=builder.drop_rate(layer_attr),
        options={"level": _level(builder, agg_level), "stride": stride},
    )


def _level(builder: Builder, level: Any) -> str:
    if level not in (AggregateLevel.EACH_TIMESTEP, AggregateLevel.EACH_SEQUENCE):
        raise builder.error(f"agg_level must be AggregateLevel.EACH_TIMESTEP or .EACH_SEQUENCE, not {level!r}")
    return str(level)


@helper
def lstmemory(
    input: Any,
    name: str | None = None,
    size: int | None = None,
    reverse: bool = False,
    act: Any = None,
    gate_act: Any = None,
    state_act: Any = None,
    bias_attr: Any = None,
    param_attr: Any = None,
    layer_attr: Any = None,
) -> Output:
    builder = current()
    layer = builder.layer(input)
    own, rest = divmod(layer.size, 4)
    if rest:
        raise builder.error(f"its input must be four times its size, but {layer!r} is not a multiple of 4")
    if size is not None and size != own:
        raise builder.error(f"size {size} does not fit: {layer!r} gives an lstmemory of size {own}")
    name = builder.name(name, "lstmemory")
    return builder.add(
        name,
        "lstmemory",
        own,
        (layer,),
        parameters=(builder.parameter(param_attr, f"_{name}.w0", (own, 4 * own)),),
        bias=builder.bias(bias_attr, name, 7 * own),
        activation=builder.activation(act, "tanh"),
        drop_rate=builder.drop_rate(layer_attr),
        options={
            "reverse": bool(reverse),
            "gate_activation": builder.activation(gate_act, "sigmoid", "gate_act"),
            "state_activation": builder.activation(state_act, "tanh", "state_act"),
        },
    )


@helper
def concat_layer(
    input: Any, act: Any = None, name: str | None = None, layer_attr: Any = None, bias_attr: Any = None
) -> Output:
    builder = current()
    name = builder.name(name, "concat")
    given = list(input) if isinstance(input, list | tuple) else [input]
    projections: tuple[Projection, ...] = ()
    if given and all(isinstance(each, Pending) for each in given):
        projections = tuple(
            each.alone(builder, f"_{name}.w{number}", f"input {number}") for number, each in enumerate(given)
        )
        inputs, size = tuple(each.origin for each in given), sum(each.size for each in projections)
    else:
        inputs = builder.layers_of(given)
        size = sum(layer.size for layer in inputs)
    return builder.add(
        name,
        "concat2" if projections else "concat",
        size,
        inputs,
        projections=projections,
        bias=builder.bias(bias_attr, name, size, by_default=False),
        activation=builder.activation(act, "linear"),
        drop_rate=builder.drop_rate(layer_attr),
    )


@helper
def addto_layer(
    input: Any, act: Any = None, name: str | None = None, bias_attr: Any = None, layer_attr: Any = None
) -> Output:
    builder = current()
    inputs = builder.layers_of(input)
    for layer in inputs[1:]:
        if layer.size != inputs[0].size:
            raise builder.error(f"layers of different sizes cannot be added: {inputs[0]!r} and {layer!r}")
    name = builder.name(name, "addto")
    return builder.add(
        name,
        "addto",
        inputs[0].size,
        inputs,
        bias=builder.bias(bias_attr, name, inputs[0].size, by_default=False),
        activation=builder.activation(act, "linear"),
        drop_rate=builder.drop_rate(layer_attr),
    )


@helper
def cos_sim(
    a: Any, b: Any, scale: float | None = None, size: int = 1, name: str | None = None, layer_attr: Any = None
) -> Output:
    """Its scale was 5 until January 2017."""
    builder = current()
    first, second = builder.layer(a, "a"), builder.layer(b, "b")
    if size != 1:
        raise builder.error("umiak compares vectors one to one; leave out size")
    if first.size != second.size:
        raise builder.error(f"the two layers must have one size, but are {first!r} and {second!r}")
    if scale is None:
        scale = 5 if builder.version == "0.9" else 1
    return builder.add(
        builder.name(name, "cos_sim"),
        "cos_sim",
        1,
        (first, second),
        drop_rate=builder.drop_rate(layer_attr),
        options={"scale": scale},
    )


@helper
def maxid_layer(input: Any, name: str | None = None, layer_attr: Any = None) -> Output:
    builder = current()
    layer = builder.layer(input)
    return builder.add(builder.name(name, "maxid_layer"), "maxid", layer.size, (layer,))


@helper
def classification_cost(
    input: Any,
    label: Any,
    weight: Any = None,
    name: str | None = None,
    evaluator: Any = None,
    layer_attr: Any = None,
    coeff: float = 1.0,
) -> Output:
    builder = current()
    layer, truth = builder.layer(input), builder.layer(label, "label")
    if truth.kind != "data":
        raise builder.error(f"label must be a data_layer, not {truth!r}")
    if builder.layers[layer.name].activation != "softmax":
        raise builder.error(f"its input must end in SoftmaxActivation(), but {layer!r} does not")
    parents = (layer, truth, *([builder.layer(weight, "weight")] if weight is not None else []))
    made = builder.add(builder.name(name, "cost"), "cross_entropy", 1, parents, options={"coefficient": coeff})
    for each in _evaluators(evaluator):
        each(name=each.__name__, input=layer, label=truth, weight=weight)
    return made


def _evaluators(given: Any) -> list[Any]:
    if given is None:
        return [classification_error_evaluator]
    return list(given) if isinstance(given, list | tuple) else [given]


@helper
def mse_cost(
    input: Any, label: Any, weight: Any = None, name: str | None = None, coeff: float = 1.0, layer_attr: Any = None
) -> Output:
    """Was called regression_cost in 0.9, and is still known by that name."""
    builder = current()
    layer, truth = builder.layer(input), builder.layer(label, "label")
    name = builder.name(name, "regression_cost" if builder.version == "0.9" else "mse_cost")
    parents = (layer, truth, *([builder.layer(weight, "weight")] if weight is not None else []))
    return builder.add(name, "square_error", 1, parents, options={"coefficient": coeff})


@helper
def classification_error_evaluator(
    input: Any,
    label: Any,
    name: str | None = None,
    weight: Any = None,
    top_k: int | None = None,
    threshold: float | None = None,
) -> None:
    builder = current()
    if top_k is not None:
        builder.since_10("top_k")
        top_k = builder.size(top_k, "top_k")
    if threshold is not None:
        raise builder.error("umiak counts by the largest probability; leave out threshold")
    inputs = [builder.layer(input), builder.layer(label, "label")]
    if weight is not None:
        inputs.append(builder.layer(weight, "weight"))
    name = builder.name(name, "classification_error_evaluator")
    same = sum(known.name.rstrip("_0123456789") == name for known in builder.evaluators)
    name = f"{name}_{same}" if same else name
    names, options = tuple(layer.name for layer in inputs), {} if top_k is None else {"top_k": top_k}
    builder.evaluators.append(Evaluator(name, "classification_error", names, options))
