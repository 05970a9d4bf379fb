"""settings() and what is written inside it: update rules, schedules of the learning rate, regularisation."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, ClassVar

from umiak.errors import InputError
from umiak.paddle_v1.graph import Method, Schedule, Training
from umiak.paddle_v1.language.building import Builder, current, helper

SCHEDULES = ("poly", "constant", "exp", "discexp", "linear", "caffe_poly", "manual", "pass_manual")


@dataclass(frozen=True)
class BaseSGDOptimizer:
    """What all update rules share: a name and their numbers."""

    method: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise InputError(f"{type(self).__name__}: {item.name} must be a number, not {value!r}")

    def numbers(self) -> dict[str, float]:
        return {item.name: float(getattr(self, item.name)) for item in fields(self)}


@dataclass(frozen=True)
class MomentumOptimizer(BaseSGDOptimizer):
    method: ClassVar[str] = "momentum"
    momentum: float | None = None
    sparse: bool = False

    def __post_init__(self) -> None:
        if self.sparse:
            raise InputError(
                "MomentumOptimizer: umiak has no sparse=True; rows of tables take part in momentum as they are"
            )
        if self.momentum is not None and (
            isinstance(self.momentum, bool) or not isinstance(self.momentum, int | float)
        ):
            raise InputError(f"MomentumOptimizer: momentum must be a number, not {self.momentum!r}")

    def numbers(self) -> dict[str, float]:
        return {"momentum": float(self.momentum or 0.0)}


@dataclass(frozen=True)
class AdamOptimizer(BaseSGDOptimizer):
    method: ClassVar[str] = "adam"
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8


@dataclass(frozen=True)
class AdamaxOptimizer(BaseSGDOptimizer):
    method: ClassVar[str] = "adamax"
    beta1: float
    beta2: float


@dataclass(frozen=True)
class AdaGradOptimizer(BaseSGDOptimizer):
    method: ClassVar[str] = "adagrad"

    def numbers(self) -> dict[str, float]:
        return {"epsilon": 1e-6}


@dataclass(frozen=True)
class RMSPropOptimizer(BaseSGDOptimizer):
    method: ClassVar[str] = "rmsprop"
    rho: float = 0.95
    epsilon: float = 1e-6


@dataclass(frozen=True)
class DecayedAdaGradOptimizer(RMSPropOptimizer):
    method: ClassVar[str] = "decayed_adagrad"


@dataclass(frozen=True)
class AdaDeltaOptimizer(RMSPropOptimizer):
    method: ClassVar[str] = "adadelta"


@dataclass(frozen=True)
class BaseRegularization:
    """No regularisation."""


@dataclass(frozen=True)
class L2Regularization(BaseRegularization):
    rate: float

    def __post_init__(self) -> None:
        if isinstance(self.rate, bool) or not isinstance(self.rate, int | float) or self.rate < 0:
            raise InputError(f"L2Regularization: rate must be a number of at least 0, not {self.rate!r}")


@dataclass(frozen=True)
class ModelAverage:
    """Where the values are is of no matter here, so `do_average_in_cpu` changes nothing."""

    average_window: float
    max_average_window: int | None = None
    do_average_in_cpu: bool = False


@helper
def settings(
    batch_size: int,
    learning_rate: float = 1e-3,
    learning_rate_decay_a: float = 0.0,
    learning_rate_decay_b: float = 0.0,
    learning_rate_schedule: str = "poly",
    learning_rate_args: str = "",
    learning_method: Any = None,
    regularization: Any = None,
    is_async: bool = False,
    model_average: Any = None,
    gradient_clipping_threshold: float | None = None,
    async_lagged_grad_discard_ratio: float = 1.5,
    average_window: float | None = None,
    do_average_in_cpu: bool = False,
    max_average_window: int | None = None,
) -> None:
    builder = current()
    average = model_average
    if average_window is not None or max_average_window is not None:
        if builder.version != "0.9":
            raise builder.error("average_window was of 0.9; write model_average=ModelAverage(average_window=…)")
        average = average or ModelAverage(average_window or 0, max_average_window)
    if average is not None and not isinstance(average, ModelAverage):
        raise builder.error(f"model_average must be a ModelAverage(…), not {average!r}")
    most = average.max_average_window if average else None
    method = MomentumOptimizer() if learning_method is None else learning_method
    if isinstance(method, type):
        method = method()
    if not isinstance(method, BaseSGDOptimizer):
        raise builder.error(f"learning_method must be an optimizer like AdamOptimizer(), not {learning_method!r}")
    clip = gradient_clipping_threshold
    builder.settings = Training(
        batch_size=builder.size(batch_size, "batch_size"),
        learning_rate=_at_least_zero(builder, "learning_rate", learning_rate),
        method=Method(method.method, method.numbers()),
        schedule=_schedule(
            builder, learning_rate_schedule, learning_rate_decay_a, learning_rate_decay_b, learning_rate_args
        ),
        l2=_decay(builder, regularization),
        clip=None if not clip else _at_least_zero(builder, "gradient_clipping_threshold", clip),
        is_async=bool(is_async),
        async_lagged_grad_discard_ratio=float(async_lagged_grad_discard_ratio),
        average_window=_at_least_zero(builder, "average_window", average.average_window) if average else 0.0,
        max_average_window=None if most is None else builder.size(most, "max_average_window"),
    )


def _decay(builder: Builder, regularization: Any) -> float:
    rate = 0.0
    given = regularization if isinstance(regularization, list | tuple) else [regularization]
    for each in given:
        if isinstance(each, L2Regularization):
            rate = float(each.rate)
        elif each is not None and not isinstance(each, BaseRegularization):
            raise builder.error(f"regularization must be L2Regularization(rate), not {each!r}")
    return rate


def _schedule(builder: Builder, name: Any, a: Any, b: Any, segments: Any) -> Schedule:
    if name not in SCHEDULES:
        raise builder.error(f"learning_rate_schedule must be one of {', '.join(SCHEDULES)}, not {name!r}")
    if name not in ("manual", "pass_manual"):
        return Schedule(
            name,
            _at_least_zero(builder, "learning_rate_decay_a", a),
            _at_least_zero(builder, "learning_rate_decay_b", b),
        )
    want = f'learning_rate_args of schedule {name} is "until:factor,until:factor,…" with rising numbers'
    try:
        pairs = [part.split(":") for part in str(segments).split(",") if part.strip()]
        read = tuple((float(until), float(factor)) for until, factor in pairs)
    except ValueError:
        raise builder.error(f"{want}, not {segments!r}") from None
    if not read or any(later[0] <= earlier[0] for earlier, later in pairwise(read)):
        raise builder.error(f"{want}, not {segments!r}")
    return Schedule(name, segments=read)


def _at_least_zero(builder: Builder, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise builder.error(f"{name} must be a number of at least 0, not {value!r}")
    return float(value)
