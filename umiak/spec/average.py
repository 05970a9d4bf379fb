"""A model average as v1's settings(model_average=…) asks for it. The sums are kept by umiak/pserver/average.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Average:
    """The values after each update are averaged: after n updates, those after the last `window`·n to 2·`window`·n.

    At most `most` are summed up before the older sum is dropped; None: as many as the last pass had updates.
    """

    window: float
    most: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {"window": self.window, "most": self.most}
