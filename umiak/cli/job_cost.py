"""What the workers of a job cost per hour: their share of the machines they run on, where AWS tells a price."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from umiak.cli.job_prices import Prices
from umiak.errors import UmiakError

if TYPE_CHECKING:
    from umiak.jobs.status import Status
    from umiak.jobs.watch import Meter
    from umiak.kube.api import Api
    from umiak.page.cost import Price

HOUR = timedelta(hours=1)
ANSWER_SECONDS = 10.0


class Bill:
    """Keeps the last price that was known of a job: its nodes may be gone when it has ended."""

    def __init__(self, api: Api, namespace: str, prices: Prices | None = None) -> None:
        self._api, self._namespace, self._prices = api, namespace, prices or Prices()
        self._meter: Meter | None = None
        self._asked: dict[str, tuple[Decimal, Decimal]] = {}
        self._known: dict[str, Price] = {}

    def price(self, seen: Status) -> Price | None:
        """Never waits for AWS: what is not known yet is known a moment later."""
        if price := self._now(seen):
            self._known[seen.name] = price
        return self._known.get(seen.name)

    @property
    def waits(self) -> bool:
        """Whether AWS was asked and may still answer."""
        return self._prices.asked

    def _now(self, seen: Status) -> Price | None:
        from umiak.jobs import watch
        from umiak.page.cost import Price

        self._meter = meter = self._meter or watch.Meter(self._api, self._prices)
        try:
            if seen.name not in self._asked:
                self._asked[seen.name] = watch.asked(self._api, self._namespace, seen.name)
            now, (cpu, memory) = datetime.now(UTC), self._asked[seen.name]
            hourly = [
                meter.cost(replace(worker, since=now - HOUR, until=now), cpu, memory, now)
                for worker in seen.workers
                if worker.node
            ]
        except UmiakError:
            return None
        known = [float(each) for each in hourly if each is not None]
        if not known:
            return None
        part = (
            "" if len(known) == len(seen.workers) else f" (the price of {len(known)} of {len(seen.workers)} is known)"
        )
        return Price(
            sum(known), f"{len(seen.workers)} workers' share of their AWS machines{part}, ${sum(known):,.3f} an hour."
        )


def write_price(api: Api, namespace: str, name: str, target: Path) -> None:
    """Beside a run that was pulled, so that a page about it knows what it cost. What is not known is not written."""
    from umiak.files import write_json
    from umiak.jobs import status
    from umiak.page import cost

    bill, deadline = Bill(api, namespace), time.monotonic() + ANSWER_SECONDS
    try:
        seen = status.gather(api, namespace, name)
        if not any(worker.node for worker in seen.workers):
            return
        while (price := bill.price(seen)) is None and bill.waits and time.monotonic() < deadline:
            time.sleep(0.2)
    except UmiakError:
        return
    if price is not None:
        write_json(target / cost.FILE, {"dollars_per_hour": price.per_hour, "text": price.text})
