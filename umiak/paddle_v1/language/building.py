"""The graph while a config runs: names, parameters and checks that all helpers share. The helpers themselves are elsewhere."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from umiak.errors import InputError
from umiak.paddle_v1.graph import DataSources, Evaluator, Layer, Parameter, Training
from umiak.paddle_v1.language.attributes import NO_BIAS_START, BaseActivation, ExtraLayerAttribute, ParameterAttribute
from umiak.paddle_v1.language.modules import Modules
from umiak.paddle_v1.python2.translation import Located

_current: ContextVar[Builder] = ContextVar("builder")
FILLED = ("name", "act", "gate_act", "state_act", "param_attr", "bias_attr", "padding_attr", "pooling_type")
"""Arguments that v1 filled in where their keyword was missing: given by position they were there twice, which ended the run."""
Helper = TypeVar("Helper", bound=Callable[..., Any])


class Output:
    """A layer as the config sees it: what it passes on as an input. Parents are in v1's order."""

    def __init__(self, name: str, size: int, kind: str, parents: tuple[Output, ...] = ()) -> None:
        self.name, self.size, self.kind, self.parents = name, size, kind, parents

    def __repr__(self) -> str:
        return f"layer {self.name!r} of size {self.size}"

    def __add__(self, other: Any) -> Output:
        return _arithmetic().add(self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Output:
        return _arithmetic().subtract(self, other)

    def __rsub__(self, other: Any) -> Output:
        return _arithmetic().subtract_from(self, other)

    def __mul__(self, other: Any) -> Output:
        return _arithmetic().multiply(self, other)

    __rmul__ = __mul__

    def _refuse(self, *_: Any) -> Output:
        raise current().error("v1 adds, subtracts and multiplies layers, and nothing else; -a is a * -1")

    __neg__ = __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __pow__ = __rpow__ = __mod__ = _refuse


@dataclass
class Builder:
    modules: Modules
    version: str
    arguments: Mapping[str, str]
    layers: dict[str, Layer] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    evaluators: list[Evaluator] = field(default_factory=list)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    settings: Training | None = None
    data: DataSources | None = None
    warnings: list[str] = field(default_factory=list)
    helper: str = ""
    _counts: Counter[str] = field(default_factory=Counter)
    _made_under: dict[str, Training | None] = field(default_factory=dict)

    def error(self, what: str) -> Located:
        """An error about the line of the config that is running."""
        file, line = self.modules.where()
        return Located(f"{file}:{line}: {self.helper}: {what}" if self.helper else f"{file}:{line}: {what}")

    def warn(self, what: str) -> None:
        file, line = self.modules.where()
        self.warnings.append(f"{file}:{line}: {what}")

    def name(self, given: Any, prefix: str) -> str:
        """The name that was given, or the next of this helper's own."""
        if given is None:
            given = f"__{prefix}_{self._counts[prefix]}__"
            self._counts[prefix] += 1
        if not isinstance(given, str) or not given:
            raise self.error(f"name must be a text, not {given!r}")
        return given

    def since_10(self, argument: str) -> None:
        if self.version == "0.9":
            raise self.error(f"{argument} came with 0.10; leave it out, or train with --paddle_version=0.10")

    def add(self, name: str, kind: str, size: int, parents: tuple[Output, ...] = (), **details: Any) -> Output:
        if name in self.layers:
            raise self.error(
                f"there is a layer {name!r} already, of line {self.layers[name].line}; give this another name"
            )
        details.setdefault("inputs", tuple(parent.name for parent in parents))
        self.layers[name] = Layer(name=name, kind=kind, size=size, line=self.modules.where()[1], **details)
        return Output(name, size, kind, parents)

    def parameter(self, attribute: Any, default: str, shape: tuple[int, ...], fan_in: int | None = None) -> str:
        """Declare a parameter and give its name; one whose name is known already is shared."""
        attribute = ParameterAttribute() if attribute is None else attribute
        if not isinstance(attribute, ParameterAttribute):
            raise self.error(f"a parameter attribute is a ParamAttr(…), not {attribute!r}")
        name = attribute.name or default
        known = self.parameters.get(name)
        if known is not None:
            if known.shape != shape:
                raise self.error(f"parameter {name!r} is shared, but is {_by(known.shape)} there and {_by(shape)} here")
            return name
        free = not attribute.is_static
        self.parameters[name] = Parameter(
            name=name,
            shape=shape,
            init=attribute.init(shape[0] if fan_in is None else fan_in),
            learning_rate=1.0 if attribute.learning_rate is None or not free else float(attribute.learning_rate),
            l1=_number(attribute.l1_rate) if free else None,
            l2=_number(attribute.l2_rate) if free else None,
            momentum=_number(attribute.momentum) if free else None,
            clip=_number(attribute.gradient_clipping_threshold),
            sparse=bool(attribute.sparse_update),
            static=attribute.is_static,
        )
        self._made_under[name] = self.settings
        return name

    def settled_parameters(self) -> dict[str, Parameter]:
        """The parameters; each has the momentum, decay and clipping of the settings() that it was made under."""
        assert self.settings is not None
        return {name: _under(p, self._made_under[name], self.settings) for name, p in self.parameters.items()}

    def bias(self, attribute: Any, layer: str, size: int, *, by_default: bool = True) -> str | None:
        """The name of a layer's bias. None and True ask for the usual one, everything else but a ParamAttr for none."""
        if attribute is None and not by_default:
            return None
        if attribute is None or attribute is True:
            attribute = NO_BIAS_START
        if not isinstance(attribute, ParameterAttribute):
            return None
        return self.parameter(attribute, f"_{layer}.wbias", (size,), fan_in=1)

    def layer(self, value: Any, argument: str = "input") -> Output:
        if not isinstance(value, Output):
            raise self.error(f"{argument} must be a layer, not {value!r}")
        if value.name not in self.layers:
            raise self.error(f"layer {value.name!r} is not finished yet: end its `with` block before it is used")
        return value

    def layers_of(self, value: Any, argument: str = "input") -> tuple[Output, ...]:
        values = value if isinstance(value, list | tuple) else [value]
        if not values:
            raise self.error(f"{argument} is empty; give at least one layer")
        return tuple(self.layer(entry, argument) for entry in values)

    def size(self, value: Any, argument: str = "size") -> int:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole and isinstance(value, float) and value.is_integer():
            whole, value = True, int(value)
        if not whole or value < 1:
            raise self.error(f"{argument} must be a whole number of at least 1, not {value!r}")
        return int(value)

    def activation(self, value: Any, default: str, argument: str = "act") -> str:
        if value is None:
            return default
        if isinstance(value, type) and issubclass(value, BaseActivation):
            value = value()
        if not isinstance(value, BaseActivation):
            raise self.error(f"{argument} must be an activation like TanhActivation(), not {value!r}")
        return value.name

    def drop_rate(self, value: Any) -> float:
        if value is None:
            return 0.0
        if not isinstance(value, ExtraLayerAttribute):
            raise self.error(f"layer_attr must be an ExtraAttr(…), not {value!r}")
        return float(value.drop_rate or 0.0)


def _arithmetic() -> Any:
    """Operators make layers, and the helpers for them are made with this module."""
    from umiak.paddle_v1.language import arithmetic

    return arithmetic


def current() -> Builder:
    try:
        return _current.get()
    except LookupError:
        raise InputError("the helpers of a v1 config work only in a config that umiak loads") from None


@contextmanager
def building(builder: Builder) -> Iterator[Builder]:
    token = _current.set(builder)
    try:
        yield builder
    finally:
        _current.reset(token)


def helper(function: Helper) -> Helper:
    """A name of the v1 language."""
    signature = inspect.signature(function)
    known = list(signature.parameters.values())
    open_ended = any(p.kind is p.VAR_POSITIONAL for p in known)
    required = sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in known)

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        builder = current()
        outer, builder.helper = builder.helper, builder.helper or function.__name__
        try:
            if len(arguments) > required and not open_ended:
                _check_positions(builder, [p.name for p in known[required : len(arguments)]])
            try:
                signature.bind(*arguments, **named)
            except TypeError as error:
                raise builder.error(f"{error}; it has {', '.join(p.name for p in known)}") from None
            return function(*arguments, **named)
        finally:
            builder.helper = outer

    return call  # type: ignore[return-value]


def _check_positions(builder: Builder, names: list[str]) -> None:
    if filled := [name for name in names if name in FILLED]:
        told = ", ".join(f"{name}=…" for name in filled)
        raise builder.error(f"give these by their keywords, as PaddlePaddle v1 wanted it: {told}")


def _under(parameter: Parameter, made: Training | None, last: Training) -> Parameter:
    """v1 fixed these numbers when a parameter was made: a later settings() does not reach it."""
    if made == last or parameter.static:
        return parameter
    l2, momentum, clip = (made.l2, made.momentum, made.clip) if made else (0.0, 0.0, None)
    return replace(
        parameter,
        l2=l2 if parameter.l2 is None and l2 != last.l2 else parameter.l2,
        momentum=momentum if parameter.momentum is None and momentum != last.momentum else parameter.momentum,
        clip=(clip or 0.0) if parameter.clip is None and clip != last.clip else parameter.clip,
    )


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def _by(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))
