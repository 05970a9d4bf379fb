"""The small values a v1 config passes to its helpers: attributes of parameters and layers, activations, poolings."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from umiak.errors import InputError
from umiak.paddle_v1.graph import Init, Normal, Uniform


@dataclass(frozen=True)
class ParameterAttribute:
    """How a parameter starts and is trained; None leaves it to settings() or to the layer."""

    name: str | None = None
    is_static: bool = False
    initial_std: float | None = None
    initial_mean: float | None = None
    initial_max: float | None = None
    initial_min: float | None = None
    l1_rate: float | None = None
    l2_rate: float | None = None
    learning_rate: float | None = None
    momentum: float | None = None
    gradient_clipping_threshold: float | None = None
    sparse_update: bool = False

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            switch = name in ("is_static", "sparse_update")
            if name == "name":
                if value is not None and not isinstance(value, str):
                    raise InputError(f"ParamAttr: name must be a text, not {value!r}")
            elif value is not None and not switch and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise InputError(f"ParamAttr: {name} must be a number, not {value!r}")
        if (self.initial_min is None) != (self.initial_max is None):
            raise InputError("ParamAttr: initial_min and initial_max belong together; give both")
        if self.initial_min is not None and self.initial_max is not None and self.initial_min >= self.initial_max:
            raise InputError(f"ParamAttr: initial_min {self.initial_min} must be below initial_max {self.initial_max}")

    def init(self, fan_in: int) -> Init:
        """Without numbers of its own a parameter starts as N(0, 1/√fan_in)."""
        if self.initial_std is not None or self.initial_mean is not None:
            return Normal(
                float(self.initial_mean or 0.0), float(0.01 if self.initial_std is None else self.initial_std)
            )
        if self.initial_min is not None and self.initial_max is not None:
            return Uniform(float(self.initial_min), float(self.initial_max))
        return Normal(0.0, 1.0 / math.sqrt(fan_in))


NO_BIAS_START = ParameterAttribute(initial_std=0.0, initial_mean=0.0)
"""How a bias starts where nothing is said: at zero."""


@dataclass(frozen=True)
class ExtraLayerAttribute:
    """drop_rate; `device` is of the days of several GPUs and ignored."""

    error_clipping_threshold: float | None = None
    drop_rate: float | None = None
    device: int | None = None

    def __post_init__(self) -> None:
        if self.error_clipping_threshold is not None:
            raise InputError(
                "ExtraAttr: umiak has no error_clipping_threshold; remove it or clip gradients in settings()"
            )
        rate = self.drop_rate
        if rate is not None and (not isinstance(rate, int | float) or not 0 <= rate < 1):
            raise InputError(f"ExtraAttr: drop_rate must be at least 0 and below 1, not {rate!r}")


@dataclass(frozen=True)
class BaseActivation:
    name: str = field(default="", init=False)


@dataclass(frozen=True)
class TanhActivation(BaseActivation):
    name: str = field(default="tanh", init=False)


@dataclass(frozen=True)
class SigmoidActivation(BaseActivation):
    name: str = field(default="sigmoid", init=False)


@dataclass(frozen=True)
class SoftmaxActivation(BaseActivation):
    name: str = field(default="softmax", init=False)


@dataclass(frozen=True)
class ReluActivation(BaseActivation):
    name: str = field(default="relu", init=False)


@dataclass(frozen=True)
class LinearActivation(BaseActivation):
    name: str = field(default="linear", init=False)


@dataclass(frozen=True)
class ExpActivation(BaseActivation):
    name: str = field(default="exponential", init=False)


@dataclass(frozen=True)
class LogActivation(BaseActivation):
    name: str = field(default="log", init=False)


@dataclass(frozen=True)
class AbsActivation(BaseActivation):
    name: str = field(default="abs", init=False)


@dataclass(frozen=True)
class SquareActivation(BaseActivation):
    name: str = field(default="square", init=False)


@dataclass(frozen=True)
class BasePoolingType:
    name: str = field(default="", init=False)


@dataclass(frozen=True)
class MaxPooling(BasePoolingType):
    output_max_index: Any = None
    name: str = field(default="max", init=False)

    def __post_init__(self) -> None:
        if self.output_max_index:
            raise InputError("MaxPooling: umiak has no output_max_index")


@dataclass(frozen=True)
class AvgPooling(BasePoolingType):
    """The mean of a sequence; with strategy "sum" its sum."""

    strategy: str = "average"
    name: str = field(default="avg", init=False)

    def __post_init__(self) -> None:
        if self.strategy not in ("average", "sum"):
            raise InputError(f'AvgPooling: strategy must be "average" or "sum", not {self.strategy!r}')
        if self.strategy == "sum":
            object.__setattr__(self, "name", "sum")


@dataclass(frozen=True)
class SumPooling(BasePoolingType):
    name: str = field(default="sum", init=False)


class AggregateLevel:
    """What is pooled: the steps of each sequence, or those of each inner sequence."""

    EACH_TIMESTEP = "non-seq"
    EACH_SEQUENCE = "seq"
    TO_NO_SEQUENCE = EACH_TIMESTEP
    TO_SEQUENCE = EACH_SEQUENCE
