"""One service: its blocks and tables, and the round that updates them. Knows nothing of sockets.

Contributions are added in trainer order, whatever order they arrive in, so a round's result is a function of what was sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from umiak.errors import InputError, UmiakError
from umiak.pserver import registry
from umiak.pserver.dense import DenseStore
from umiak.pserver.optimizers import Clock
from umiak.pserver.placement import owned_by
from umiak.pserver.protocol import Fetch, Flags, RoundResult, ServiceSpec
from umiak.pserver.table import Table
from umiak.spec.average import Average
from umiak.spec.optim import optimizer_from_json, options_from_json

_OUT_OF_DATA = int(Flags.OUT_OF_DATA)
_CUT = int(Flags.CHECKPOINT | Flags.STOP)


@dataclass
class Contribution:
    """One trainer's part of a round. Gradient parts are empty when it has no samples."""

    samples: int
    flags: Flags
    cost: float
    dense: np.ndarray | None = None
    rows: Sequence[np.ndarray] = ()


class Answer(NamedTuple):
    """What a service says to a part of a round. The rows of each trainer go with it."""

    result: RoundResult
    values: np.ndarray
    """The dense values: not to be changed until it has been sent."""
    ends_round: bool
    """Whether it ends a round and goes to all trainers alike; otherwise only to the one that sent the part."""


class Service:
    def __init__(self, spec: ServiceSpec, values: np.ndarray) -> None:
        kinds = registry.kinds()
        optimizer = optimizer_from_json(spec.optimizer, kinds)
        options = {name: options_from_json(value, kinds) for name, value in spec.options.items()}
        self.spec = spec
        self._counts_itself = spec.mode != "async" or optimizer.COUNTS_ITSELF
        self.dense = DenseStore(spec.blocks, optimizer, options, Average(**spec.average) if spec.average else None)
        if values.size != self.dense.values.size:
            raise UmiakError(f"{values.size} initial values where the blocks hold {self.dense.values.size}")
        self.dense.values[:] = values
        self.tables = [
            Table(
                t.name,
                t.dim,
                spec.seed,
                t.init,
                optimizer,
                options.get(t.name),
                vocab=t.vocab,
                **_share(t.limits, spec),
            )
            for t in spec.tables
        ]
        for table in self.tables:
            if table.catches_up:  # its untouched rows change too, so all of them are there from the start
                ids = np.arange(table.vocab or 0)
                table.locate(ids[owned_by(ids, spec.row_service, spec.row_services)], pass_id=spec.start_pass)
        self.clock = Clock(0, 0, spec.start_pass)
        self.round = 0
        nothing: list[np.ndarray] = [np.empty(0, np.int32) for _ in self.tables]
        self._current = [nothing for _ in range(spec.trainers)]
        self._next = [nothing for _ in range(spec.trainers)]
        self._parts: list[Contribution | None] = [None] * spec.trainers
        self._summed = 0
        self._samples = 0
        self._room = [[np.empty((0, t.dim), np.float32) for t in self.tables] for _ in range(spec.trainers)]
        self._sums: list[np.ndarray | None] = [None] * spec.trainers
        self._counted = [table.stats() for table in self.tables]

    def want(self, trainer: int, ids: Sequence[np.ndarray], again: bool = False) -> None:
        """Find or create the rows a trainer's next batch needs; they become its current ones when the round ends."""
        self._next[trainer] = [
            table.locate(wanted, create=True, pass_id=self.clock.pass_id, again=again)
            for table, wanted in zip(self.tables, ids, strict=True)
        ]

    def fetch(self, trainer: int, ids: Sequence[np.ndarray], how: Fetch) -> list[np.ndarray]:
        """Rows without a round: for a test, or for the first batch of a pass."""
        if how is Fetch.PEEK:
            return self._peek(ids)
        self.want(trainer, ids, again=how is Fetch.AGAIN)
        self._current[trainer] = self._next[trainer]
        return self.rows(trainer)

    def take(self, trainer: int, round_id: int, part: Contribution) -> Answer | None:
        """Take one trainer's part of a round; what to answer, or None while others are missing."""
        if not self.contribute(trainer, round_id, part):
            return None
        return Answer(self.finish(), self.dense.values, ends_round=True)

    def lose(self, trainer: int) -> bool:
        """Do without a trainer until its successor comes; False where that cannot be: a round needs all of them."""
        return False

    def contribute(self, trainer: int, round_id: int, part: Contribution) -> bool:
        """Take one trainer's part; True when the round is complete."""
        if round_id != self.round:
            raise UmiakError(f"trainer {trainer} sent round {round_id} where {self.round} is under way")
        if self._parts[trainer] is not None:
            raise UmiakError(f"trainer {trainer} sent round {round_id} twice")
        self._parts[trainer] = part
        while self._summed < self.spec.trainers and (ready := self._parts[self._summed]) is not None:
            self._add(self._summed, ready)
            self._summed += 1
        return self._summed == self.spec.trainers

    def missing(self) -> list[int]:
        """The trainers whose part of the round is not there yet."""
        return [trainer for trainer, part in enumerate(self._parts) if part is None]

    def _add(self, trainer: int, part: Contribution) -> None:
        if not part.samples:
            return
        self._samples += part.samples
        assert part.dense is not None
        bad = self.dense.add(part.dense, part.samples)
        for table, rows, grads in zip(self.tables, self._current[trainer], part.rows, strict=True):
            bad = table.add(rows, grads, part.samples) or bad
        if bad:
            raise InputError(
                f"the gradient of {bad!r} is not finite in pass {self.clock.pass_id}, round {self.round}, trainer {trainer}: "
                "lower the learning rate, set clip, or look for a division by zero in the loss"
            )

    def finish(self) -> RoundResult:
        """Update once with what was added, and begin the next round."""
        parts = [part for part in self._parts if part is not None]
        # Plain numbers: operations on flags cost more than all the rest of this.
        everybody, anybody = _OUT_OF_DATA, 0
        for part in parts:
            asked = int(part.flags)
            everybody &= asked
            anybody |= asked
        samples = self._samples
        self._update()
        flags = Flags(everybody | (anybody & _CUT))
        result = RoundResult(self.round, samples, flags, sum(part.cost for part in parts))
        self._current = list(self._next)
        self._parts = [None] * self.spec.trainers
        self._summed = 0
        self.round += 1
        if everybody:
            self.end_pass()
        return result

    def _update(self) -> None:
        """Apply the optimizer once to what was added."""
        if not self._samples:
            return
        before, total = self.clock.samples, self._samples
        self.clock = self.clock._replace(step=self.clock.step + 1, samples=before + total)
        when = self.clock if self._counts_itself else self.clock._replace(samples=before)
        self.dense.step(total, when)
        for table in self.tables:
            table.step(total, when)
        self._samples = 0

    def end_pass(self) -> None:
        for table in self.tables:
            table.catch_up(self.clock)
        self.dense.end_pass()
        self.clock = self.clock._replace(pass_id=self.clock.pass_id + 1, begun=self.clock.step)
        for table in self.tables:
            table.end_pass(self.clock.pass_id)

    def current(self, trainer: int) -> list[np.ndarray]:
        """Where the rows of a trainer's current batch stand in each table."""
        return self._current[trainer]

    def rows(self, trainer: int) -> list[np.ndarray]:
        """The current rows of a trainer, one array per table: valid until it is next given rows."""
        found = []
        for number, (table, rows) in enumerate(zip(self.tables, self._current[trainer], strict=True)):
            room = self._room[trainer][number]
            if len(room) < rows.size:
                room = self._room[trainer][number] = np.empty((rows.size * 5 // 4, table.dim), np.float32)
            table.gather(rows, room[: rows.size])
            found.append(room[: rows.size])
        return found

    def _peek(self, ids: Sequence[np.ndarray]) -> list[np.ndarray]:
        found = []
        for table, wanted in zip(self.tables, ids, strict=True):
            out = np.empty((wanted.size, table.dim), np.float32)
            table.peek(wanted, out)
            found.append(out)
        return found

    def summary(self) -> str:
        """The tables in one line, for the log."""
        parts = []
        for table in self.tables:
            stats = table.stats()
            parts.append(
                f"{table.name}: rows={stats.rows} bytes={stats.bytes} new={stats.new_share:.2%} expired={stats.expired}"
            )
        return "; ".join(parts)

    def statistics(self) -> dict[str, dict[str, int]]:
        """Each table's size, and what was touched, new and expired since this was last asked for."""
        found = {}
        for number, table in enumerate(self.tables):
            stats, before = table.stats(), self._counted[number]
            self._counted[number] = stats
            found[table.name] = {
                "rows": stats.rows,
                "waiting": stats.waiting,
                "bytes": stats.bytes,
                "touches": stats.touches - before.touches,
                "new": stats.new - before.new,
                "expired": stats.expired - before.expired,
            }
        return found

    def reduce(self, trainer: int, vector: np.ndarray) -> np.ndarray | None:
        """Sum a float64 vector over the trainers, in trainer order; the sum when all are there."""
        if self._sums[trainer] is not None:
            raise UmiakError(f"trainer {trainer} sent its part of a sum twice")
        self._sums[trainer] = vector.copy()
        parts = [part for part in self._sums if part is not None]
        if len(parts) < self.spec.trainers:
            return None
        if len({part.size for part in parts}) > 1:
            raise UmiakError("the trainers sent sums of different lengths")
        self._sums = [None] * self.spec.trainers
        total = np.zeros_like(parts[0])
        for part in parts:
            total += part
        return total


def _share(limits: dict[str, Any], spec: ServiceSpec) -> dict[str, Any]:
    """A table's limits for one of its services: max_rows is of the whole table, and ids spread evenly."""
    most = limits.get("max_rows")
    return limits if most is None else {**limits, "max_rows": -(-most // spec.row_services)}
