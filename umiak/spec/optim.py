"""The optimizers, learning-rate schedules and per-parameter options a config author writes.

Only their settings live here, validated and exact through JSON; the arithmetic is the parameter server's. Formulas,
names and defaults are torch's, with these words on top: `l2` is torch's weight_decay, `l1` shrinks values towards zero
by lr·l1 after the step, `clip` bounds each element of the averaged gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from umiak.errors import InputError


def _fail(owner: object, name: str, want: str, got: object) -> InputError:
    return InputError(f"{type(owner).__name__}.{name} must be {want}, not {got!r}")


def _number(owner: object, name: str, want: str, holds: Callable[[float], bool]) -> None:
    """Check one numeric field and keep it as a float, so that 1 and 1.0 are the same setting."""
    value = getattr(owner, name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not holds(value):
        raise _fail(owner, name, want, value)
    object.__setattr__(owner, name, float(value))


def _at_least_zero(owner: object, *names: str) -> None:
    for name in names:
        _number(owner, name, "a number of at least 0", lambda value: value >= 0)


def _above_zero(owner: object, *names: str) -> None:
    for name in names:
        _number(owner, name, "a number above 0", lambda value: value > 0)


def _fraction(owner: object, *names: str) -> None:
    for name in names:
        _number(owner, name, "at least 0 and below 1", lambda value: 0 <= value < 1)


def _boolean(owner: object, *names: str) -> None:
    for name in names:
        if not isinstance(getattr(owner, name), bool):
            raise _fail(owner, name, "True or False", getattr(owner, name))


def _optional(owner: object, check: Callable[..., None], *names: str) -> None:
    for name in names:
        if getattr(owner, name) is not None:
            check(owner, name)


@dataclass(frozen=True)
class Schedule:
    """What the learning rate is multiplied by. As it stands: constant."""

    def factor(self, samples: int, pass_id: int) -> float:
        """The factor for a round; `samples` counts those of all trainers so far, this round included."""
        return 1.0


@dataclass(frozen=True)
class Poly(Schedule):
    """(1 + a·samples)^-b"""

    a: float
    b: float

    def __post_init__(self) -> None:
        _at_least_zero(self, "a", "b")

    def factor(self, samples: int, pass_id: int) -> float:
        return float((1.0 + self.a * samples) ** -self.b)


@dataclass(frozen=True)
class PolyToZero(Schedule):
    """(1 - samples/total)^power, and 0 from `total` samples on."""

    total: float
    power: float = 1.0

    def __post_init__(self) -> None:
        _above_zero(self, "total", "power")

    def factor(self, samples: int, pass_id: int) -> float:
        return float(max(0.0, 1.0 - samples / self.total) ** self.power)


@dataclass(frozen=True)
class Exp(Schedule):
    """a^(samples/b)"""

    a: float
    b: float

    def __post_init__(self) -> None:
        _above_zero(self, "a", "b")

    def factor(self, samples: int, pass_id: int) -> float:
        return float(self.a ** (samples / self.b))


@dataclass(frozen=True)
class DiscExp(Exp):
    """a^floor(samples/b): like Exp, in steps."""

    def factor(self, samples: int, pass_id: int) -> float:
        return float(self.a ** math.floor(samples / self.b))


@dataclass(frozen=True)
class Linear(Schedule):
    """1 - a·samples, but never below b."""

    a: float
    b: float = 0.0

    def __post_init__(self) -> None:
        _at_least_zero(self, "a", "b")

    def factor(self, samples: int, pass_id: int) -> float:
        return max(1.0 - self.a * samples, self.b)


@dataclass(frozen=True)
class Manual(Schedule):
    """Segments (until, factor): the factor of the first segment that has not ended; after the last, its factor stays."""

    segments: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        want = "a non-empty list of (until, factor) with rising `until` and factors of at least 0"
        try:
            pairs = tuple((float(until), float(factor)) for until, factor in self.segments)
        except (TypeError, ValueError):
            raise _fail(self, "segments", want, self.segments) from None
        rising = all(a[0] < b[0] for a, b in pairwise(pairs))
        if not pairs or not rising or not all(math.isfinite(u) and math.isfinite(f) and f >= 0 for u, f in pairs):
            raise _fail(self, "segments", want, self.segments)
        object.__setattr__(self, "segments", pairs)

    def _at(self, position: float) -> float:
        return next((factor for until, factor in self.segments if position <= until), self.segments[-1][1])

    def factor(self, samples: int, pass_id: int) -> float:
        return self._at(samples)


@dataclass(frozen=True)
class PassManual(Manual):
    """Manual, with pass numbers instead of samples."""

    def factor(self, samples: int, pass_id: int) -> float:
        return self._at(pass_id)


@dataclass(frozen=True)
class Optimizer:
    """What all optimizers share. Write one of the subclasses in a config."""

    lr: float = 1e-3
    schedule: Schedule = field(default=Schedule(), kw_only=True)
    l1: float = field(default=0.0, kw_only=True)
    l2: float = field(default=0.0, kw_only=True)
    clip: float | None = field(default=None, kw_only=True)

    COUNTS_ITSELF = True
    """Whether a schedule counts the samples of the very update in asynchronous mode. In rounds every schedule does."""

    def __post_init__(self) -> None:
        if type(self) is Optimizer:
            raise InputError(f"Optimizer is only the common part; write one of {', '.join(sorted(_OPTIMIZERS))}")
        _at_least_zero(self, "lr", "l1", "l2")
        _optional(self, _above_zero, "clip")
        if not isinstance(self.schedule, Schedule):
            raise _fail(self, "schedule", f"one of {', '.join(sorted(_SCHEDULES))}", self.schedule)
        self._check()

    def _check(self) -> None:
        """Check the fields of the subclass."""


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent, with torch's momentum, dampening and Nesterov's variant."""

    momentum: float = field(default=0.0, kw_only=True)
    dampening: float = field(default=0.0, kw_only=True)
    nesterov: bool = field(default=False, kw_only=True)

    def _check(self) -> None:
        _at_least_zero(self, "momentum")
        _number(self, "dampening", "a number", lambda _: True)
        _boolean(self, "nesterov")
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise InputError("SGD.nesterov needs a momentum above 0 and a dampening of 0")


@dataclass(frozen=True)
class AdaGrad(Optimizer):
    """torch's Adagrad: each value has its own step, which shrinks with the gradients it has seen."""

    lr: float = 1e-2
    eps: float = field(default=1e-10, kw_only=True)
    initial_accumulator_value: float = field(default=0.0, kw_only=True)

    def _check(self) -> None:
        _at_least_zero(self, "eps", "initial_accumulator_value")


@dataclass(frozen=True)
class RMSProp(Optimizer):
    """torch's RMSprop: AdaGrad with a decaying mean of squared gradients; `centered` subtracts their mean."""

    lr: float = 1e-2
    alpha: float = field(default=0.99, kw_only=True)
    eps: float = field(default=1e-8, kw_only=True)
    momentum: float = field(default=0.0, kw_only=True)
    centered: bool = field(default=False, kw_only=True)

    def _check(self) -> None:
        _fraction(self, "alpha")
        _at_least_zero(self, "eps", "momentum")
        _boolean(self, "centered")


@dataclass(frozen=True)
class Adam(Optimizer):
    """torch's Adam; on the rows of a table torch's SparseAdam: only the rows of a round move, and the table counts steps."""

    beta1: float = field(default=0.9, kw_only=True)
    beta2: float = field(default=0.999, kw_only=True)
    eps: float = field(default=1e-8, kw_only=True)

    def _check(self) -> None:
        _fraction(self, "beta1", "beta2")
        _at_least_zero(self, "eps")


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam whose `l2` shrinks the values by lr·l2 instead of being added to the gradient."""

    l2: float = field(default=1e-2, kw_only=True)


@dataclass(frozen=True)
class AdaDelta(Optimizer):
    """torch's Adadelta: steps follow from the size of earlier steps; `lr` scales them."""

    lr: float = 1.0
    rho: float = field(default=0.9, kw_only=True)
    eps: float = field(default=1e-6, kw_only=True)

    def _check(self) -> None:
        _fraction(self, "rho")
        _at_least_zero(self, "eps")


@dataclass(frozen=True)
class FTRL(Optimizer):
    """FTRL-proximal (McMahan et al. 2013): alpha is `lr`, and `l1`, `l2` are part of the formula.

    A value that does not start at 0 starts as if it were where the regularised minimum lies.
    """

    lr: float = 1e-1
    beta: float = field(default=1.0, kw_only=True)

    def _check(self) -> None:
        _at_least_zero(self, "beta")


@dataclass(frozen=True)
class ParamOptions:
    """How to train some parameters differently: `lr` multiplies the optimizer's (0 freezes them); None keeps a setting."""

    lr: float = 1.0
    l1: float | None = None
    l2: float | None = None
    clip: float | None = None
    optimizer: Optimizer | None = None

    def __post_init__(self) -> None:
        _at_least_zero(self, "lr")
        _optional(self, _at_least_zero, "l1", "l2")
        _optional(self, _above_zero, "clip")
        if self.optimizer is not None and not isinstance(self.optimizer, Optimizer):
            raise _fail(self, "optimizer", f"one of {', '.join(sorted(_OPTIMIZERS))}", self.optimizer)

    def applied_to(self, default: Optimizer) -> Optimizer:
        """The optimizer this parameter is trained with where the job's is `default`."""
        base = self.optimizer or default
        changes = {name: getattr(self, name) for name in ("l1", "l2", "clip") if getattr(self, name) is not None}
        return replace(base, lr=base.lr * self.lr, **changes)


_SCHEDULES: dict[str, type[Schedule]] = {
    cls.__name__: cls for cls in (Schedule, Poly, PolyToZero, Exp, DiscExp, Linear, Manual, PassManual)
}
_OPTIMIZERS: dict[str, type[Optimizer]] = {
    cls.__name__: cls for cls in (SGD, AdaGrad, RMSProp, Adam, AdamW, AdaDelta, FTRL)
}
Kinds = Mapping[str, type[Optimizer]]
"""Optimizers that are defined elsewhere, by name."""
NONE: Kinds = MappingProxyType({})


def to_json(value: Optimizer | ParamOptions | Schedule) -> dict[str, Any]:
    """A JSON object that the `…_from_json` functions turn back into an equal value."""
    out: dict[str, Any] = {"kind": type(value).__name__}
    for item in fields(value):
        field_value = getattr(value, item.name)
        if isinstance(field_value, Optimizer | Schedule):
            field_value = to_json(field_value)
        elif isinstance(field_value, tuple):
            field_value = [list(pair) for pair in field_value]
        out[item.name] = field_value
    return out


def _build(data: object, kinds: Mapping[str, type[Any]], where: str, optimizers: Kinds) -> Any:
    """The dataclass a JSON object stands for; `where` is the path of the object, for messages."""
    if not isinstance(data, Mapping):
        raise InputError(f"{where} must be an object with a kind, not {data!r}")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise InputError(f"{where}.kind must be one of {', '.join(sorted(kinds))}, not {kind!r}")
    values = {name: value for name, value in data.items() if name != "kind"}
    known = {item.name: item for item in fields(kinds[kind])}
    for name in values:
        if name not in known:
            raise InputError(f"{where}.{name} is not a field of {kind}; it has {', '.join(known)}")
    for name, item in known.items():
        if name not in values and item.default is MISSING:
            raise InputError(f"{where}.{name} is missing; {kind} needs it")
    if "schedule" in values:
        values["schedule"] = _build(values["schedule"], _SCHEDULES, f"{where}.schedule", optimizers)
    if values.get("optimizer") is not None:
        values["optimizer"] = _build(values["optimizer"], optimizers, f"{where}.optimizer", optimizers)
    return kinds[kind](**values)


def optimizer_from_json(data: object, elsewhere: Kinds = NONE) -> Optimizer:
    kinds = {**_OPTIMIZERS, **elsewhere}
    value: Optimizer = _build(data, kinds, "optimizer", kinds)
    return value


def options_from_json(data: object, elsewhere: Kinds = NONE) -> ParamOptions:
    value: ParamOptions = _build(data, {"ParamOptions": ParamOptions}, "options", {**_OPTIMIZERS, **elsewhere})
    return value
