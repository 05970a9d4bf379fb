"""The format of a piece of a checkpoint: what one service held, as tensors with names and a little metadata.

A table's `ids` and `passes` stand before its `rows`, because a service restores a piece while it reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umiak.errors import DamagedError, RetryError
from umiak.files import read_bytes
from umiak.rundir.tensorfile import Piece

DENSE = "dense/"


def file_name(service: int) -> str:
    return f"service-{service}.safetensors"


def open_table_name(table: str, service: int) -> str:
    """The file of a snapshot that holds a service's rows of a table without a vocabulary."""
    return f"{table}.{file_name(service)}"


def trainer_key(trainer: int) -> str:
    """A trainer's own state, in the piece of service 0."""
    return f"trainer-{trainer}"


def table_key(table: str, part: str) -> str:
    """`part` is ids, passes, rows or waiting."""
    return f"table/{table}/{part}"


@dataclass(frozen=True)
class Progress:
    """How far a service was: the fields of its clock, the next round, and those of its average if it keeps one."""

    clock: tuple[int, ...]
    round: int
    average: tuple[Any, ...] | None = None

    def encode(self) -> dict[str, str]:
        average = {} if self.average is None else {"average": json.dumps(self.average)}
        return {"clock": json.dumps(self.clock), "round": str(self.round), **average}

    @classmethod
    def decode(cls, metadata: Mapping[str, str]) -> Progress:
        average = tuple(json.loads(metadata["average"])) if "average" in metadata else None
        return cls(tuple(json.loads(metadata["clock"])), int(metadata["round"]), average)


def listed_in(manifest: Path) -> list[Piece]:
    """The pieces that a manifest names. A service reads only these: the rest of it is the trainers' affair."""
    try:
        return [Piece.of(piece, manifest) for piece in json.loads(read_bytes(manifest))["pieces"]]
    except FileNotFoundError:
        raise RetryError(f"{manifest} is gone: perhaps this checkpoint was just found damaged") from None
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{manifest} is damaged: {error}") from None
