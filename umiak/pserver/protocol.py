"""The words that trainers and services share: what can be asked for, what a round gives, and what a service holds.

No behaviour, and no bytes: codec.py puts these on the wire.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import IntEnum, IntFlag
from typing import Any, NamedTuple

from umiak.errors import InputError
from umiak.paths import is_name


class Flags(IntFlag):
    """What a trainer asks for with a round, and what the service then tells all of them alike."""

    NONE = 0
    OUT_OF_DATA = 1
    """This trainer has no batch for the next round; in a reply: nobody has, the pass has ended."""
    CHECKPOINT = 2
    """Somebody wants a checkpoint after this round."""
    STOP = 4
    """Somebody was told to stop: checkpoint after this round, then end."""
    DROPPED = 8
    """In a reply of asynchronous mode: the gradient was too old and was not used."""


class Fetch(IntEnum):
    """What a FETCH does to the rows it names."""

    PEEK = 0
    """Nothing: a test."""
    CREATE = 1
    """They are touched, made if need be, and become the trainer's current ones."""
    AGAIN = 2
    """The same, but the touch was counted before: they are asked for once more."""


class Dense(IntEnum):
    """Which dense values a FETCH wants."""

    NONE = 0
    VALUES = 1
    AVERAGED = 2
    """Their mean over the last updates, where the job keeps one."""


class RoundResult(NamedTuple):
    """What a service says about a completed round: the same to every trainer, but for how long this one was kept waiting."""

    round: int
    samples: int
    flags: Flags
    cost: float
    waited: float = 0.0
    """Seconds from this trainer's part to that of the last."""


@dataclass(frozen=True)
class TableSpec:
    """A sparse table as the servers see it."""

    name: str
    dim: int
    init: dict[str, Any]
    vocab: int | None = None
    limits: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ServiceSpec:
    """One service's part of a job: what it holds and how it updates it. Sent by trainer 0 in SETUP."""

    index: int
    services: int
    trainers: int
    seed: int
    optimizer: dict[str, Any]
    options: dict[str, dict[str, Any]]
    blocks: list[tuple[str, int, int]]
    tables: list[TableSpec]
    row_service: int
    row_services: int
    mode: str = "sync"
    lag_ratio: float = 1.5
    start_pass: int = 0
    average: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ServiceSpec:
        """As it arrived. Names and numbers become parts of the names of files: they must be what they should be."""
        blocks = [(_name(name), int(start), int(stop)) for name, start, stop in value["blocks"]]
        tables = [TableSpec(**{**table, "name": _name(table["name"])}) for table in value["tables"]]
        numbers = {name: int(value[name]) for name in ("index", "services", "trainers", "row_service", "row_services")}
        return cls(**{**value, **numbers, "blocks": blocks, "tables": tables})


def _name(name: object) -> str:
    if not is_name(name):
        raise InputError(f"{name!r} cannot be the name of a parameter: it would not be the name of a file; rename it")
    return str(name)
