"""Mixed layers of the v1 language: sums of projections, and embeddings, which are one projection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from umiak.paddle_v1.graph import Projection
from umiak.paddle_v1.language.attributes import NO_BIAS_START, ParameterAttribute
from umiak.paddle_v1.language.building import Builder, Output, current, helper


class Pending:
    """A projection before its mixed layer is finished. It needs the layer's size, and gets its parameter's name from it."""

    def __init__(
        self,
        origin: Output,
        size: int | None,
        finish: Callable[[Builder, int, str], Projection],
    ) -> None:
        self.origin, self.size, self.finish = origin, size, finish

    def alone(self, builder: Builder, name: str, what: str) -> Projection:
        """The projection in a layer that puts several side by side; `name` is its parameter's."""
        if not self.size:
            raise builder.error(f"{what}, a projection of {self.origin!r}, must say its own size here")
        return self.finish(builder, self.size, name)


class Mixed(Output):
    """A mixed layer: `with mixed_layer(size=…) as m: m += projection`, or finished at once from a list."""

    def __init__(self, name: str, size: int, act: str, bias: Any, drop_rate: float) -> None:
        super().__init__(name, size, "mixed")
        self._act, self._bias, self._drop_rate = act, bias, drop_rate
        self._pending: list[Pending] = []
        self._finished = False

    def __iadd__(self, projection: Any) -> Mixed:
        builder = current()
        if self._finished:
            raise builder.error(f"mixed layer {self.name!r} is finished; add to it inside its `with` block")
        if not isinstance(projection, Pending):
            raise builder.error(f"a mixed layer adds up projections, not {projection!r}")
        self._pending.append(projection)
        self.parents = (*self.parents, projection.origin)
        return self

    def __enter__(self) -> Mixed:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.finish()

    def finish(self) -> None:
        builder = current()
        if not self._pending:
            raise builder.error(f"mixed layer {self.name!r} has no input; add a projection")
        if not self.size:
            self.size = next((pending.size for pending in self._pending if pending.size), 0)
        if not self.size:
            raise builder.error(f"mixed layer {self.name!r} needs a size; write mixed_layer(size=…)")
        projections = []
        for number, pending in enumerate(self._pending):
            projection = pending.finish(builder, self.size, f"_{self.name}.w{number}")
            if projection.size != self.size:
                raise builder.error(
                    f"mixed layer {self.name!r} has size {self.size}, but the {projection.kind} projection "
                    f"of {pending.origin!r} gives {projection.size}"
                )
            projections.append(projection)
        bias = builder.bias(self._bias, self.name, self.size, by_default=False)
        self._finished = True
        builder.add(
            self.name,
            "mixed",
            self.size,
            self.parents,
            bias=bias,
            activation=self._act,
            drop_rate=self._drop_rate,
            projections=tuple(projections),
        )


@helper
def mixed_layer(
    size: int = 0,
    input: Any = None,
    name: str | None = None,
    act: Any = None,
    bias_attr: Any = False,
    layer_attr: Any = None,
) -> Mixed:
    builder = current()
    made = Mixed(
        builder.name(name, "mixed"),
        builder.size(size) if size else 0,
        builder.activation(act, "linear"),
        bias_attr,
        builder.drop_rate(layer_attr),
    )
    if input is not None:
        for projection in input if isinstance(input, list | tuple) else [input]:
            made += projection
        made.finish()
    return made


@helper
def embedding_layer(
    input: Any, size: int, name: str | None = None, param_attr: Any = None, layer_attr: Any = None
) -> Mixed:
    builder = current()
    projection = table_projection(input=input, size=size, param_attr=param_attr)
    return mixed_layer(
        name=builder.name(name, "embedding"),
        size=builder.size(size),
        input=[projection],
        layer_attr=layer_attr,
    )


@helper
def full_matrix_projection(input: Any, size: int = 0, param_attr: Any = None) -> Pending:
    origin = current().layer(input)
    return _weighted("full_matrix", origin, size, param_attr, lambda width: (origin.size, width))


@helper
def trans_full_matrix_projection(input: Any, size: int = 0, param_attr: Any = None) -> Pending:
    origin = current().layer(input)
    return _weighted("trans_full_matrix", origin, size, param_attr, lambda width: (width, origin.size))


@helper
def table_projection(input: Any, size: int = 0, param_attr: Any = None) -> Pending:
    builder = current()
    origin = builder.layer(input)
    if origin.kind != "data":
        raise builder.error(f"a table looks up ids, so its input must be a data_layer, not {origin!r}")
    return _weighted("table", origin, size, param_attr, lambda width: (origin.size, width))


@helper
def dotmul_projection(input: Any, param_attr: Any = None) -> Pending:
    origin = current().layer(input)
    return _weighted("dotmul", origin, origin.size, param_attr, lambda width: (1, width))


@helper
def scaling_projection(input: Any, param_attr: Any = None) -> Pending:
    origin = current().layer(input)
    return _weighted("scaling", origin, origin.size, param_attr, lambda width: (1, 1))


@helper
def identity_projection(input: Any, offset: int | None = None) -> Pending:
    origin = current().layer(input)
    if offset is None:
        return Pending(origin, origin.size, lambda *_: Projection("identity", origin.name, origin.size))

    def finish(builder: Builder, width: int, _: str) -> Projection:
        if not isinstance(offset, int) or offset < 0 or offset + width > origin.size:
            raise builder.error(f"{width} elements from offset {offset} do not fit into {origin!r}")
        return Projection("identity", origin.name, width, options={"offset": offset})

    return Pending(origin, None, finish)


@helper
def context_projection(input: Any, context_len: int, context_start: int | None = None, padding_attr: Any = None) -> Any:
    """Beyond the ends of a sequence stand trained values, which begin at zero; with padding_attr=False, zeros."""
    builder = current()
    origin, length = builder.layer(input), builder.size(context_len, "context_len")
    if padding_attr is None or padding_attr is True:
        padding_attr = NO_BIAS_START
    start = -(length - 1) // 2 if context_start is None else context_start
    if not isinstance(start, int):
        raise builder.error(f"context_start must be a whole number, not {context_start!r}")
    width, padding = origin.size * length, max(0, -start) + max(0, start + length - 1)

    def finish(builder: Builder, _: int, default: str) -> Projection:
        trained = isinstance(padding_attr, ParameterAttribute) and padding
        name = builder.parameter(padding_attr, default, (padding, origin.size)) if trained else None
        return Projection("context", origin.name, width, name, {"start": start, "length": length})

    return Pending(origin, width, finish)


def _weighted(kind: str, origin: Output, size: int, attribute: Any, shape: Callable[[int], tuple[int, ...]]) -> Pending:
    wanted = current().size(size) if size else None

    def finish(builder: Builder, width: int, default: str) -> Projection:
        own = wanted or width
        return Projection(kind, origin.name, own, builder.parameter(attribute, default, shape(own)))

    return Pending(origin, wanted, finish)
