"""A service in asynchronous mode: every message is applied at once, and gradients that are too old are dropped.

A gradient is too old when the service has made `lag` updates or more since that trainer's last exchange. There are no
rounds; passes still end for all together, because trainers meet at a barrier between them.
"""

from __future__ import annotations

import math

import numpy as np

from umiak.pserver.protocol import Flags, RoundResult, ServiceSpec
from umiak.pserver.service import Answer, Contribution, Service


class AsyncService(Service):
    """`round` counts updates here. Results tell a trainer what all of them did since its last exchange."""

    def __init__(self, spec: ServiceSpec, values: np.ndarray) -> None:
        super().__init__(spec, values)
        self.lag = math.floor(spec.trainers * spec.lag_ratio)
        self.dropped = 0
        self._seen = [0] * spec.trainers
        self._done = np.zeros(2)
        """Samples and cost of all messages so far."""
        self._told_of = [np.zeros(2) for _ in range(spec.trainers)]
        self._out: set[int] = set()
        self._asked = Flags.NONE
        self._told: set[int] = set()
        self._at_barrier = False

    def take(self, trainer: int, round_id: int, part: Contribution) -> Answer:
        # A copy of the values, because the next update does not wait until they have been sent.
        return Answer(self.apply(trainer, part), self.dense.values.copy(), ends_round=False)

    def apply(self, trainer: int, part: Contribution) -> RoundResult:
        """Take one trainer's message at once. The wanted rows become its current ones."""
        self._at_barrier = False
        flags = Flags.NONE
        if part.samples and self.round - self._seen[trainer] >= self.lag:
            self.dropped += 1
            flags |= Flags.DROPPED
        elif part.samples:
            self._add(trainer, part)
            self._update()
            self.round += 1
        self._current[trainer] = self._next[trainer]
        self._seen[trainer] = self.round
        self._done += (part.samples, part.cost)
        samples, cost = self._done - self._told_of[trainer]
        self._told_of[trainer] = self._done.copy()
        return RoundResult(self.round, int(samples), flags | self._answer(trainer, part.flags), float(cost))

    def _answer(self, trainer: int, asked: Flags) -> Flags:
        """What to tell a trainer: its own end of data, and a cut that somebody asked for, to each exactly once.

        A cut is begun only while nobody is out of data: those who are wait for the end of the pass, not for a cut.
        """
        wanted = asked & (Flags.CHECKPOINT | Flags.STOP)
        if wanted and not self._asked and not self._out:
            self._asked = wanted
        answer = asked & Flags.OUT_OF_DATA
        if self._asked and trainer not in self._told:
            self._told.add(trainer)
            answer |= self._asked
        if answer & Flags.OUT_OF_DATA:
            self._out.add(trainer)
        if len(self._told) == self.spec.trainers:
            self._asked, self._told, self._at_barrier = Flags.NONE, set(), True
        if len(self._out) == self.spec.trainers:
            self._out, self._at_barrier = set(), True
            self.end_pass()
        return answer

    def lose(self, trainer: int) -> bool:
        """Its successor begins with a fetch. A trainer that a cut or a barrier waits for cannot be done without."""
        if self.spec.index == 0 and (self._at_barrier or self._asked or trainer in self._out):
            return False
        nothing: list[np.ndarray] = [np.empty(0, np.int32) for _ in self.tables]
        self._current[trainer] = self._next[trainer] = nothing
        self._sums[trainer] = None
        return True

    def summary(self) -> str:
        return f"dropped={self.dropped} {super().summary()}"


def service_for(spec: ServiceSpec, values: np.ndarray) -> Service:
    return AsyncService(spec, values) if spec.mode == "async" else Service(spec, values)
