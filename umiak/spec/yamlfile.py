"""Typed YAML: a file becomes a frozen dataclass, and every complaint names the file, the line and the field.

A schema is a dataclass whose fields carry `about` as metadata; the same text that explains a field in the file that `dump`
writes is what the reader of the code sees. Knows nothing of clusters or jobs.
"""

from __future__ import annotations

import dataclasses
import difflib
import textwrap
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml

from umiak.errors import InputError

T = TypeVar("T")
Check = Callable[[Any], str | None]

COMMENT_WIDTH = 100
_KINDS = {"int": "a whole number", "bool": "true or false", "str": "text"}


def about(doc: str, check: Check | None = None) -> dict[str, Any]:
    """Metadata of a schema's field: what it is for, and a check of its typed value that returns a complaint or None."""
    return {"doc": doc, "check": check}


def to_yaml(data: Any) -> str:
    """Plain data as YAML, in the order it has; the same data gives the same text."""
    return str(yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True))


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        # Tags repeat on every resource; an anchor in place of each repeat would be shorter and unreadable.
        return True


def load(path: Path, kind: type[T]) -> T:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    return parse(text, str(path), kind)


def parse(text: str, name: str, kind: type[T]) -> T:
    """The typed content of `text`; `name` is how complaints call it. All complaints come in one InputError, a line each."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        raise InputError(f"{where}: not YAML: {getattr(error, 'problem', None) or error}") from error
    reader = _Reader(name)
    value = reader.schema(kind, node, "") if node else reader.schema(kind, yaml.MappingNode("", []), "")
    if not reader.complaints:
        for path, complaint in cross_complaints(value):
            reader.complain(reader.line_of(path), path, complaint)
    if reader.complaints:
        raise InputError("\n".join(text for _, text in sorted(reader.complaints, key=lambda item: item[0])))
    return typing.cast(T, value)


def complaints(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """What is wrong with a schema that was built in code, as (field, complaint)."""
    found = list(_field_complaints(value, prefix))
    yield from found or cross_complaints(value)


def cross_complaints(value: Any) -> Iterator[tuple[str, str]]:
    """What a schema says about its fields together, in its optional method `conflicts`."""
    if hasattr(value, "conflicts"):
        yield from value.conflicts()


def _field_complaints(value: Any, prefix: str) -> Iterator[tuple[str, str]]:
    for item in dataclasses.fields(value):
        inner = getattr(value, item.name)
        path = f"{prefix}{item.name}"
        if dataclasses.is_dataclass(inner):
            yield from _field_complaints(inner, f"{path}.")
        elif (complaint := _checked(item, inner)) is not None:
            yield path, complaint


def _checked(item: dataclasses.Field[Any], value: Any) -> str | None:
    check = item.metadata.get("check")
    return check(value) if check and value is not None else None


class _Reader:
    """Walks YAML nodes beside a schema. Nodes, not values, because only nodes know their line and how a number was written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.complaints: list[tuple[int, str]] = []
        self.lines: dict[str, int] = {}

    def complain(self, line: int, path: str, text: str) -> Any:
        self.complaints.append((line, f"{self.name}:{line}: {path}: {text}" if path else f"{self.name}:{line}: {text}"))

    def line_of(self, path: str) -> int:
        while path and path not in self.lines:
            path = path.rpartition(".")[0]
        return self.lines.get(path, 1)

    def schema(self, kind: Any, node: yaml.Node, path: str) -> Any:
        line = node.start_mark.line + 1 if node.start_mark else 1
        if not isinstance(node, yaml.MappingNode):
            return self.complain(line, path, f"must hold fields such as “{_names(kind)[0]}: …”, not {_shown(node)}")
        hints = typing.get_type_hints(kind)
        given: dict[str, yaml.Node] = {}
        for key, value in node.value:
            label = str(key.value)
            full = f"{path}.{label}" if path else label
            here = key.start_mark.line + 1
            if label not in hints:
                self.complain(here, full, f"unknown field{_nearest(label, _names(kind))}")
            elif label in given:
                self.complain(here, full, f"written twice; the first is on line {self.lines[full]}")
            else:
                self.lines[full] = here
                given[label] = value
        values: dict[str, Any] = {}
        for item in dataclasses.fields(kind):
            full = f"{path}.{item.name}" if path else item.name
            if item.name in given:
                before = len(self.complaints)
                values[item.name] = self.value(hints[item.name], given[item.name], full)
                complaint = _checked(item, values[item.name]) if len(self.complaints) == before else None
                if complaint is not None:
                    self.complain(self.lines[full], full, complaint)
            elif item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
                self.complain(line, full, f"missing; write “{item.name}: …” ({item.metadata['doc'].split('. ')[0]})")
        return kind(**values) if not self.complaints else None

    def value(self, hint: Any, node: yaml.Node, path: str) -> Any:
        line = node.start_mark.line + 1
        origin = typing.get_origin(hint)
        if dataclasses.is_dataclass(hint):
            return self.schema(hint, node, path)
        if origin is types.UnionType:
            inner = next(arg for arg in typing.get_args(hint) if arg is not type(None))
            return None if _tag(node) == "null" else self.value(inner, node, path)
        if origin is tuple:
            if not isinstance(node, yaml.SequenceNode):
                return self.complain(line, path, f"must be a list, like [a, b], not {_shown(node)}")
            return tuple(
                self.value(typing.get_args(hint)[0], item, f"{path}[{i}]") for i, item in enumerate(node.value)
            )
        if origin is dict:
            return self.mapping(typing.get_args(hint)[1], node, path)
        if origin is typing.Literal:
            choices = typing.get_args(hint)
            if isinstance(node, yaml.ScalarNode) and node.value in choices:
                return node.value
            return self.complain(line, path, f"must be one of {', '.join(choices)}, not {_shown(node)}")
        return self.scalar(hint, node, path)

    def mapping(self, inner: Any, node: yaml.Node, path: str) -> Any:
        """Names of the user's own choice, each with a scalar; or, where anything may stand, plain data as it is."""
        if not isinstance(node, yaml.MappingNode):
            return self.complain(node.start_mark.line + 1, path, f"must hold names and values, not {_shown(node)}")
        if inner is Any:
            try:
                return yaml.SafeLoader("").construct_document(node)
            except yaml.YAMLError as error:
                return self.complain(
                    node.start_mark.line + 1, path, f"cannot be read: {getattr(error, 'problem', error)}"
                )
        return {str(key.value): self.value(inner, item, f"{path}.{key.value}") for key, item in node.value}

    def scalar(self, hint: Any, node: yaml.Node, path: str) -> Any:
        tag = _tag(node)
        if hint is str and tag in ("str", "int", "float", "timestamp"):
            # Taken as written: 1.30 stays 1.30 and an account id keeps its leading zero.
            return node.value
        if hint is int and tag == "int":
            return yaml.SafeLoader("").construct_yaml_int(node)
        if hint is bool and tag == "bool":
            return node.value.lower() in ("true", "yes", "on")
        advice = "; put it in quotes" if hint is str and tag == "bool" else ""
        return self.complain(
            node.start_mark.line + 1, path, f"must be {_KINDS[hint.__name__]}, not {_shown(node)}{advice}"
        )


def dump(value: Any, indent: int = 0) -> str:
    """A schema as commented YAML, every field with its value and what it is for."""
    pad = " " * indent
    out: list[str] = []
    for item in dataclasses.fields(value):
        inner = getattr(value, item.name)
        width = COMMENT_WIDTH - indent
        out += [f"{pad}# {line}" for line in textwrap.wrap(item.metadata["doc"], width, break_on_hyphens=False)]
        if dataclasses.is_dataclass(inner):
            out += [f"{pad}{item.name}:", dump(inner, indent + 2).rstrip("\n")]
        else:
            out.append(f"{pad}{item.name}: {written(inner)}")
        if indent == 0:
            out.append("")
    return "\n".join(out).rstrip("\n") + "\n"


def written(value: Any) -> str:
    """A value as YAML on one line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(written(item) for item in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{written(key)}: {written(item)}" for key, item in value.items()) + "}"
    text = str(value)
    # A plain scalar must read back as the same type and text, on its own and inside a [list].
    plain = isinstance(value, int) or (
        not set(text) & set(",[]{}#:\"'&*!|>%@`") and text == text.strip() and yaml.safe_load(text or "''") == value
    )
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _tag(node: yaml.Node) -> str:
    return node.tag.rpartition(":")[2] if isinstance(node, yaml.ScalarNode) else ""


def _shown(node: yaml.Node) -> str:
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    if isinstance(node, yaml.MappingNode):
        return "fields"
    return f"{node.value!r}" if _tag(node) != "null" else "nothing"


def _names(kind: Any) -> list[str]:
    return [item.name for item in dataclasses.fields(kind)]


def _nearest(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]}?" if close else f"; the fields here are {', '.join(names)}"
