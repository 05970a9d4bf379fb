"""What `umiak show` and the page tell of a model: its parts, its parameters, and which service holds what. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from typing import Any


@dataclass(frozen=True)
class Part:
    """A layer or module. `inputs` are the parts it reads, or in a native model the one it belongs to."""

    name: str
    kind: str
    size: str = ""
    inputs: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True)
class Variable:
    """Trained numbers: dense, a table, or fixed. A side of an open table is None: it has as many rows as ids are seen."""

    name: str
    shape: tuple[int | None, ...]
    kind: str = "dense"

    @property
    def values(self) -> int | None:
        return None if None in self.shape else prod(side for side in self.shape if side is not None)

    @property
    def dims(self) -> str:
        return " × ".join("open" if side is None else f"{side:,}" for side in self.shape)


@dataclass(frozen=True)
class Held:
    """What one service holds: (name, start, stop) of dense parameters, and the tables it has rows of."""

    server: int
    service: int
    blocks: tuple[tuple[str, int, int], ...] = ()
    tables: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.server}.{self.service}"

    @property
    def values(self) -> int:
        return sum(stop - start for _, start, stop in self.blocks)


@dataclass(frozen=True)
class Outline:
    """`flows`: the parts' inputs are what they read; otherwise the parts are a tree."""

    title: str
    parts: tuple[Part, ...]
    variables: tuple[Variable, ...]
    held: tuple[Held, ...] = ()
    notes: tuple[str, ...] = ()
    flows: bool = True

    def values_of(self, part: Part) -> int:
        """How many values the parameters of a part have, as far as that is known."""
        return sum(variable.values or 0 for variable in self.variables if variable.name in part.parameters)

    def homes(self, name: str) -> tuple[str, ...]:
        """The services that hold some of a parameter."""
        return tuple(
            held.name for held in self.held if name in held.tables or any(block[0] == name for block in held.blocks)
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of(value: Mapping[str, Any]) -> Outline:
        """What `to_json` gave. Anything else is a KeyError, a TypeError or a ValueError."""
        return Outline(
            str(value["title"]),
            tuple(_part(each) for each in value["parts"]),
            tuple(_variable(each) for each in value["variables"]),
            tuple(_held(each) for each in value["held"]),
            tuple(map(str, value["notes"])),
            bool(value["flows"]),
        )


def _part(value: Mapping[str, Any]) -> Part:
    inputs, parameters = tuple(map(str, value["inputs"])), tuple(map(str, value["parameters"]))
    return Part(str(value["name"]), str(value["kind"]), str(value["size"]), inputs, parameters)


def _variable(value: Mapping[str, Any]) -> Variable:
    shape = tuple(None if side is None else int(side) for side in value["shape"])
    return Variable(str(value["name"]), shape, str(value["kind"]))


def _held(value: Mapping[str, Any]) -> Held:
    blocks = tuple((str(name), int(start), int(stop)) for name, start, stop in value["blocks"])
    return Held(int(value["server"]), int(value["service"]), blocks, tuple(map(str, value["tables"])))
