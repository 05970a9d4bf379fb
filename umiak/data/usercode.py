"""Runs functions a user wrote and turns what goes wrong inside into errors that name the user's file and line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

from umiak.errors import InputError, UmiakError


def run(fn: Callable[..., Iterable[Any]], *arguments: Any) -> Iterator[Any]:
    """What the generator function yields."""
    iterable = _guarded(fn, fn, *arguments)
    if not isinstance(iterable, Iterable):
        raise InputError(
            f"{named(fn)} returned {type(iterable).__name__}; it must yield, or return something to iterate over"
        )
    iterator = iter(iterable)
    end = object()
    while (value := _guarded(fn, next, iterator, end)) is not end:
        yield value


def call(fn: Callable[[Any], Any], argument: Any, where: str) -> Any:
    """fn(argument), where the argument came from `where`."""
    return _guarded(fn, fn, argument, prefix=f"{where}: ")


def invoke(fn: Callable[..., Any], *arguments: Any, blame: Callable[..., Any] | None = None) -> Any:
    """fn(*arguments); `blame` is the function in whose file the line to name is sought, if that is not fn."""
    return _guarded(blame or fn, fn, *arguments)


def parameters(fn: Callable[..., Any], names: tuple[str, ...]) -> int:
    """How many of `names` fn wants to be given."""
    if not callable(fn):
        raise InputError(
            f"a provider is a generator function, not {type(fn).__name__}; pass the function, do not call it"
        )
    try:
        known = inspect.signature(fn).parameters.values()
    except ValueError:  # some builtins have no signature
        return 0
    wanted = [p for p in known if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(wanted) > len(names):
        told = ", ".join(p.name for p in wanted)
        raise InputError(f"{named(fn)} takes ({told}); a provider takes nothing or ({', '.join(names)})")
    return len(wanted)


def named(fn: Callable[..., Any]) -> str:
    code = _code(fn)
    name = getattr(fn, "__name__", type(fn).__name__)
    return f"{name} ({Path(code.co_filename).name})" if code else name


def _guarded(fn: Callable[..., Any], action: Callable[..., Any], *arguments: Any, prefix: str = "") -> Any:
    try:
        return action(*arguments)
    except UmiakError:
        raise
    except Exception as error:
        name = getattr(fn, "__name__", type(fn).__name__)
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise InputError(f"{prefix}{name} raised {said} at {_blame(error, fn)}") from error


def _blame(error: Exception, fn: Callable[..., Any]) -> str:
    """The line to look at: the deepest one in the file of `fn`, else the deepest of all."""
    code = _code(fn)
    place = mine = None
    step: TracebackType | None = error.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        place = f"{file}:{step.tb_lineno}"
        if code and file == code.co_filename:
            mine = place
        step = step.tb_next
    return mine or place or "an unknown line"


def _code(fn: Callable[..., Any]) -> CodeType | None:
    inner = inspect.unwrap(fn)
    while isinstance(inner, partial):
        inner = inner.func
    return getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
