"""A job's status again and again until it ends, through an API server that is away for a while; and what it costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from umiak.errors import RetryError, UmiakError
from umiak.jobs import capacity, status
from umiak.jobs.status import FINAL, Status, Worker
from umiak.kube.api import Api
from umiak.kube.nodes import Node, node
from umiak.kube.objects import path
from umiak.kube.refusals import ApiError

SECONDS = 2.0
# The API server of a large cluster is not asked again at once: at most a sixth of the time is spent asking.
PATIENCE = 5
AWAY_SECONDS = 600

Price = Callable[[Node], Decimal | None]
"""What a node costs per hour in dollars, if anybody knows."""


@dataclass(frozen=True)
class Away:
    """The API server did not answer; training does not need it and continues."""

    why: str


def states(api: Api, namespace: str, name: str) -> Iterator[Status | Away]:
    """Ends after a final status."""
    answered = time.monotonic()
    while True:
        began = time.monotonic()
        try:
            seen = status.gather(api, namespace, name)
        except UmiakError as error:
            if error.exit_code != RetryError.exit_code or began - answered > AWAY_SECONDS:
                raise
            yield Away(str(error))
        else:
            answered = time.monotonic()
            yield seen
            if seen.state in FINAL:
                return
        time.sleep(max(SECONDS, PATIENCE * (time.monotonic() - began)))


class Meter:
    """The money of workers: their share of a node's price, for as long as their pods have run."""

    def __init__(self, api: Api, price: Price) -> None:
        self.api, self.price = api, price
        self._nodes: dict[str, Node | None] = {}

    def cost(self, worker: Worker, cpu: Decimal, memory: Decimal, now: datetime) -> Decimal | None:
        place = self._node(worker.node) if worker.node and worker.since else None
        price = self.price(place) if place else None
        if place is None or price is None or worker.since is None:
            return None
        share = max(cpu / place.cpu if place.cpu else 0, memory / place.memory if place.memory else 0)
        seconds = ((worker.until or now) - worker.since).total_seconds()
        return price * min(Decimal(share), Decimal(1)) * Decimal(max(seconds, 0)) / 3600

    def _node(self, name: str) -> Node | None:
        if name not in self._nodes:
            try:
                found = self.api.find(path("Node", None, name))
            except ApiError:
                found = None
            self._nodes[name] = node(found) if found else None
        return self._nodes[name]


def asked(api: Api, namespace: str, name: str) -> tuple[Decimal, Decimal]:
    """CPU and memory that each worker of a job asks for."""
    return capacity.requests(status.find(api, namespace, name)["spec"]["template"]["spec"])
