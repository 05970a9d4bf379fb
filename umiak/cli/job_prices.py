"""What a node costs per hour, asked of AWS in the background: a watch shows it once it is known, and never waits for it."""

from __future__ import annotations

import threading
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from umiak.kube.nodes import Node

TYPE, REGION, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
CAPACITY = "eks.amazonaws.com/capacityType"


class Prices:
    """Dollars per hour of a node, or None: not on AWS, not known, or not known yet."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], Decimal | None] = {}

    @property
    def asked(self) -> bool:
        """Whether there was anything to ask AWS."""
        return bool(self._known)

    def __call__(self, node: Node) -> Decimal | None:
        kind, region = node.labels.get(TYPE), node.labels.get(REGION)
        if not node.provider.startswith("aws:") or not kind or not region:
            return None
        spot = node.labels.get(ZONE, "") if node.labels.get(CAPACITY) == "SPOT" else ""
        key = (kind, region, spot)
        if key not in self._known:
            self._known[key] = None
            threading.Thread(target=self._ask, args=key, daemon=True).start()
        return self._known[key]

    def _ask(self, kind: str, region: str, spot: str) -> None:
        try:
            from umiak.cluster.aws import Aws
            from umiak.cluster.prices import PriceBook, instance
        except ModuleNotFoundError:
            # Without the extra `cluster` there is nobody to ask.
            return
        book = PriceBook(Aws(region))
        price = book.spot([kind], spot) if spot else book.price(instance(kind))
        book.save()
        if price and price.currency == "USD":
            self._known[kind, region, spot] = price.amount
