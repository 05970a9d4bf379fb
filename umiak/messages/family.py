"""How a family of messages becomes JSON and back: one encode and one decode for all its kinds.

A message is a frozen dataclass. Its fields are the keys, unless a field says otherwise with `coded(...)`. A decoder skips keys
that it does not know, so it understands a later version. A field that is None by default is left out while it is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, fields
from typing import Any, Generic, TypeVar

M = TypeVar("M")


def coded(
    name: str = "", encode: Callable[[Any], Any] | None = None, decode: Callable[[Any], Any] | None = None
) -> dict[str, Any]:
    """The metadata of a field whose key is `name`, or whose value is no plain JSON."""
    return {"name": name, "encode": encode, "decode": decode}


class Family(Generic[M]):
    """The kinds of one family. `tag` is the key that names a message's kind."""

    def __init__(self, tag: str, kinds: Mapping[str, type[M]]) -> None:
        self.tag, self.kinds = tag, dict(kinds)
        self._names = {cls: name for name, cls in kinds.items()}

    def kind(self, message: M) -> str:
        return self._names[type(message)]

    def encode(self, message: M) -> dict[str, Any]:
        value: dict[str, Any] = {self.tag: self.kind(message)}
        for each in _fields(message):
            content = getattr(message, each.name)
            if content is None and each.default is None:
                continue
            encode = each.metadata.get("encode")
            value[each.metadata.get("name") or each.name] = encode(content) if encode else content
        return value

    def decode(self, value: Mapping[str, Any]) -> M | None:
        """The message, or None if this version knows no such kind."""
        cls = self.kinds.get(str(value.get(self.tag)))
        if cls is None:
            return None
        given = {}
        for each in _fields(cls):
            name = each.metadata.get("name") or each.name
            if name in value:
                decode = each.metadata.get("decode")
                given[each.name] = decode(value[name]) if decode else value[name]
        return cls(**given)


def _fields(message: Any) -> Iterable[Field[Any]]:
    return fields(message)
