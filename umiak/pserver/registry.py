"""Families of update rules that are defined elsewhere. An entry point registers them before anything is trained.

Light to import, and so are the families until one of their rules is used: most processes need none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from umiak.pserver.optimizers import Formula
    from umiak.spec.optim import Optimizer


class Family(Protocol):
    def kinds(self) -> Mapping[str, type[Optimizer]]:
        """The settings of its rules, by the names that `to_json` gives them."""

    def formula(self, optimizer: Optimizer, rows: bool) -> Formula:
        """The arithmetic of one of its rules, for dense values or for rows of a table."""


_families: list[Family] = []


def register(family: Family) -> None:
    if family not in _families:
        _families.append(family)


def kinds() -> dict[str, type[Optimizer]]:
    """The rules of all families, by name."""
    return {name: kind for family in _families for name, kind in family.kinds().items()}


def family_of(optimizer: Optimizer) -> Family | None:
    return next((family for family in _families if type(optimizer) in family.kinds().values()), None)
