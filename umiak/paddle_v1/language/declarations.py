"""What a v1 config declares beside its layers: its arguments, its data, and where the network begins and ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from umiak.paddle_v1.graph import COSTS, DataSource, DataSources
from umiak.paddle_v1.language.building import Output, current, helper

_TRUE, _FALSE = ("True", "1", "true"), ("False", "0", "false")


def get_config_arg(name: str, type: Any, default: Any = None) -> Any:
    """What --config_args says about a name, in that type. Its default may stand without a keyword."""
    builder = current()
    if name not in builder.arguments:
        return default
    text = builder.arguments[name]
    if type is bool:
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        raise builder.error(f"--config_args {name}={text}: write true or false")
    try:
        return type(text)
    except (TypeError, ValueError):
        kind = getattr(type, "__name__", type)
        raise builder.error(f"--config_args {name}={text}: write a value of type {kind}") from None


@helper
def define_py_data_sources2(train_list: Any, test_list: Any, module: Any, obj: Any, args: Any = None) -> None:
    builder = current()
    if train_list is None and test_list is None:
        raise builder.error("give a train_list or a test_list")
    line = builder.modules.where()[1]
    halves: list[DataSource | None] = []
    for half, (what, file) in enumerate((("train_list", train_list), ("test_list", test_list))):
        if file is None:
            halves.append(None)
            continue
        if isinstance(file, list) and file and all(isinstance(each, str) for each in file):
            file = tuple(file)
        elif not isinstance(file, str):
            raise builder.error(
                f"{what} must be the name of a file that lists data files, or a list of them, not {file!r}"
            )
        names = {"module": _half(module, half), "obj": _half(obj, half)}
        for argument, value in names.items():
            if not isinstance(value, str):
                raise builder.error(
                    f"{argument} must be a name, or one for training and one for testing, not {value!r}"
                )
        halves.append(DataSource(file, names["module"], names["obj"], _half(args, half), line))
    builder.data = DataSources(*halves)


def _half(value: Any, index: int) -> Any:
    """A pair is (for training, for testing); anything else is for both."""
    return value[index] if isinstance(value, list | tuple) and len(value) == 2 else value


@helper
def inputs(layers: Any, *more: Any) -> None:
    builder = current()
    builder.inputs = tuple(layer.name for layer in (*builder.layers_of(layers, "layers"), *more))


@helper
def outputs(layers: Any, *more: Any) -> None:
    """The order of inputs is that of a walk from the outputs, parents first; the costs found are the outputs."""
    builder = current()
    ends = builder.layers_of([*(layers if isinstance(layers, list | tuple) else [layers]), *more], "layers")
    if not builder.inputs:
        builder.inputs = _found(ends, lambda layer: layer.kind == "data")
    builder.outputs = _found(ends, lambda layer: layer.kind in COSTS) or tuple(layer.name for layer in ends)


def _found(ends: tuple[Output, ...], wanted: Callable[[Output], bool]) -> tuple[str, ...]:
    """Names in the order of first visit; every layer is visited once, since the second visit adds nothing."""
    seen: set[str] = set()
    names: list[str] = []

    def visit(layer: Output) -> None:
        if layer.name in seen:
            return
        seen.add(layer.name)
        for parent in layer.parents:
            visit(parent)
        if wanted(layer):
            names.append(layer.name)

    for end in ends:
        visit(end)
    return tuple(names)
