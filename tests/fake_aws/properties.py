"""What a maker of resources works with: properties of which every one is taken or refused, and clients that act for somebody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_NOTHING = object()


class Properties:
    """A resource's properties. What no maker takes is not modelled, at any depth."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = {key: self._wrapped(value) for key, value in values.items()}
        self.taken: set[str] = set()

    def _wrapped(self, value: Any) -> Any:
        if isinstance(value, dict):
            return Properties(value)
        return [self._wrapped(item) for item in value] if isinstance(value, list) else value

    def take(self, name: str, default: Any = _NOTHING) -> Any:
        """A property; one without a default must be there."""
        self.taken.add(name)
        if name not in self.values and default is not _NOTHING:
            return default
        return self.values[name]

    def plain(self, name: str, default: Any = _NOTHING) -> Any:
        """A property that is passed on whole: a policy document, a map of tags."""
        value = self.take(name, default)
        return _unwrapped(value)

    def all_taken(self, where: str) -> None:
        left = set(self.values) - self.taken
        assert not left, f"{where}: properties that are not modelled: {', '.join(sorted(left))}"
        for name, value in self.values.items():
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, Properties):
                    item.all_taken(f"{where}.{name}")


def _unwrapped(value: Any) -> Any:
    if isinstance(value, Properties):
        value.taken |= set(value.values)
        return {key: _unwrapped(inner) for key, inner in value.values.items()}
    return [_unwrapped(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class Maker:
    """Clients that act for whoever deploys, and the name CloudFormation would generate."""

    client: Callable[[str], Any]
    name: str


Result = tuple[str, dict[str, Any]]
