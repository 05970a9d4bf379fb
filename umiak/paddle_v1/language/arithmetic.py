"""Arithmetic of layers: `a + b`, `2 * a` and functions like layer_math.exp, each made of the layers that v1 made for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from umiak.paddle_v1.language.attributes import (
    AbsActivation,
    BaseActivation,
    ExpActivation,
    LogActivation,
    ReluActivation,
    SigmoidActivation,
    SquareActivation,
    TanhActivation,
)
from umiak.paddle_v1.language.building import Output, current, helper
from umiak.paddle_v1.language.mixed import identity_projection, mixed_layer


@helper
def slope_intercept_layer(
    input: Any, name: str | None = None, slope: float = 1.0, intercept: float = 0.0, layer_attr: Any = None
) -> Output:
    builder = current()
    layer = builder.layer(input)
    return builder.add(
        builder.name(name, "slope_intercept_layer"),
        "slope_intercept",
        layer.size,
        (layer,),
        drop_rate=builder.drop_rate(layer_attr),
        options={"slope": slope, "intercept": intercept},
    )


@helper
def scaling_layer(input: Any, weight: Any, name: str | None = None, layer_attr: Any = None) -> Output:
    """Each line of the input times its own number, the line of a layer of size 1."""
    builder = current()
    layer, factor = builder.layer(input), builder.layer(weight, "weight")
    if factor.size != 1:
        raise builder.error(f"weight must have size 1, but is {factor!r}")
    return builder.add(
        builder.name(name, "scaling_layer"),
        "scaling",
        layer.size,
        (factor, layer),
        drop_rate=builder.drop_rate(layer_attr),
    )


@helper
def repeat_layer(input: Any, num_repeats: int, name: str | None = None, layer_attr: Any = None) -> Output:
    builder = current()
    layer, times = builder.layer(input), builder.size(num_repeats, "num_repeats")
    return builder.add(
        builder.name(name, "repeat_layer"),
        "repeat",
        layer.size * times,
        (layer,),
        drop_rate=builder.drop_rate(layer_attr),
        options={"times": times},
    )


def add(one: Output, other: Any) -> Output:
    if _is_number(other):
        return slope_intercept_layer(input=one, intercept=other)
    other = _layer(other, "+")
    if one.size != other.size:
        if 1 not in (one.size, other.size):
            raise current().error(
                f"layers can be added if they have one size, or one of them size 1: {one!r}, {other!r}"
            )
        one, other = (other, one) if one.size == 1 else (one, other)
        other = repeat_layer(other, one.size)
    return mixed_layer(input=[identity_projection(input=one), identity_projection(input=other)])


def subtract(one: Output, other: Any) -> Output:
    if _is_number(other):
        current().warn(f"a layer minus a number adds it, as in PaddlePaddle v1; to subtract, write + {-other!r}")
        return slope_intercept_layer(input=one, intercept=other)
    return add(one, slope_intercept_layer(input=_layer(other, "-"), slope=-1.0))


def subtract_from(one: Output, other: Any) -> Output:
    """other - one, where `other` is no layer."""
    return add(slope_intercept_layer(input=one, slope=-1.0), other)


def multiply(one: Output, other: Any) -> Output:
    if _is_number(other):
        return slope_intercept_layer(input=one, slope=other)
    other = _layer(other, "*")
    if one.size == 1:
        return scaling_layer(input=other, weight=one)
    if other.size == 1:
        return scaling_layer(input=one, weight=other)
    raise current().error(
        f"a layer can be multiplied with a number or with a layer of size 1, not {one!r} with {other!r}"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _layer(value: Any, sign: str) -> Output:
    if not isinstance(value, Output):
        raise current().error(f"{sign} of a layer wants another layer or a number, not {value!r}")
    return value


def _function(name: str, activation: BaseActivation) -> Callable[..., Output]:
    def function(input: Any, name: str | None = None) -> Output:
        made = current().name(name, function.__name__)
        return mixed_layer(input=[identity_projection(input=input)], name=made, act=activation)

    function.__name__ = name
    return helper(function)


NAMES = {
    name: _function(name, activation)
    for name, activation in {
        "exp": ExpActivation(),
        "log": LogActivation(),
        "abs": AbsActivation(),
        "sigmoid": SigmoidActivation(),
        "tanh": TanhActivation(),
        "square": SquareActivation(),
        "relu": ReluActivation(),
    }.items()
}
"""What layer_math holds; in 0.9 it was called math."""
