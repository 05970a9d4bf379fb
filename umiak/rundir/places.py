"""Which process has the place of which worker. One that was replaced never gets it back, however alive it is.

A pod that was cut off or frozen, and was therefore replaced, may come back at any time; its successor must not make room for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from umiak.errors import ReplacedError

REMEMBERED = 1000
"""So many replaced processes are remembered. A job that loses more restarts far more often than it trains."""


@dataclass
class Places:
    """`holders` names the incarnation that has a worker's place, `replaced` those that had one."""

    holders: dict[int, str] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)

    def check(self, index: int, incarnation: str) -> None:
        if incarnation in self.replaced:
            raise ReplacedError(f"another process took the place of worker {index}, because this one was believed lost")

    def take(self, index: int, incarnation: str) -> None:
        """Give a place to one that was not replaced. Whoever had it before is replaced from now on."""
        self.check(index, incarnation)
        before = self.holders.get(index, incarnation)
        if before != incarnation:
            self.replaced = [*self.replaced, before][-REMEMBERED:]
        self.holders[index] = incarnation

    def to_json(self) -> dict[str, Any]:
        return {"holders": {str(index): name for index, name in self.holders.items()}, "replaced": self.replaced}

    @staticmethod
    def of(value: Mapping[str, Any]) -> Places:
        holders = {int(index): str(name) for index, name in value.get("holders", {}).items()}
        return Places(holders, [str(name) for name in value.get("replaced", [])])
