"""The dense values of one service: blocks of parameters laid end to end, the round's gradient, the optimizer's state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np

from umiak.errors import InputError
from umiak.pserver.average import Averaging
from umiak.pserver.kernels import add_dense
from umiak.pserver.memory import plain
from umiak.pserver.optimizers import Clock, Formula, formula
from umiak.pserver.protocol import Dense
from umiak.spec.average import Average
from umiak.spec.optim import Optimizer, ParamOptions

Block = tuple[str, int, int]
"""A parameter's name and which of its elements, as (start, stop)."""


class _Run:
    """Neighbouring blocks with the same settings: updated by one call."""

    def __init__(self, optimizer: Optimizer, start: int, stop: int) -> None:
        self.optimizer, self.start, self.stop = optimizer, start, stop
        self.formula: Formula = formula(optimizer)
        size = stop - start
        self.state = [np.full(size, value, np.float32) for value in self.formula.initial]
        none = np.empty(0, np.float32)
        self.slots = (self.state + [none] * 3)[:3]


class DenseStore:
    """Values, gradient and state of the blocks a service holds. `values` is what a reply carries and may be written to."""

    def __init__(
        self,
        blocks: Sequence[Block],
        optimizer: Optimizer,
        options: Mapping[str, ParamOptions] | None = None,
        average: Average | None = None,
    ) -> None:
        self.blocks = list(blocks)
        self._places: list[tuple[Block, int]] = []
        placed = []
        at = 0
        for block in self.blocks:
            name, start, stop = block
            self._places.append((block, at))
            placed.append((((options or {}).get(name) or ParamOptions()).applied_to(optimizer), at, at + stop - start))
            at += stop - start
        self.values = np.zeros(at, np.float32)
        self._total = np.zeros(at, np.float32)
        self._added = False
        self.average = Averaging(average, at) if average else None
        self._runs: list[_Run] = []
        for effective, group in groupby(placed, key=lambda item: item[0]):
            parts = list(group)
            self._runs.append(_Run(effective, parts[0][1], parts[-1][2]))

    def add(self, grad: np.ndarray, weight: float = 1.0) -> str | None:
        """Add a trainer's gradient times its weight, called in trainer order.

        Gives the name of a parameter whose gradient is not finite, if any.
        """
        if grad.shape != self.values.shape:
            raise ValueError(f"a gradient of {self.values.size} elements is due, not {grad.shape}")
        grad = plain(grad, np.float32)
        finite = add_dense(self._total, grad, np.float32(weight), not self._added)
        self._added = True
        return None if finite else self._name_at(int(np.argmin(np.isfinite(grad * np.float32(weight)))))

    def _name_at(self, position: int) -> str:
        return next(block[0] for block, at in reversed(self._places) if at <= position)

    def step(self, total: float, clock: Clock) -> None:
        """Divide the sum by `total` samples and update every block; a round to which nobody added changes nothing."""
        if self._added and total > 0:
            for run in self._runs:
                numbers = run.formula.settings(run.optimizer, total, clock, False)
                if numbers is not None:
                    part = slice(run.start, run.stop)
                    run.formula.step_dense(run.formula.kind, numbers, self.values[part], self._total[part], *run.slots)
            if self.average:
                self.average.add(self.values)
        self._added = False

    def end_pass(self) -> None:
        if self.average:
            self.average.end_pass()

    def read(self, how: Dense) -> list[np.ndarray]:
        """What a FETCH wants of the values, which the next update changes; of their mean, a copy."""
        if how is Dense.NONE:
            return []
        averaged = how is Dense.AVERAGED and self.average is not None
        return [self.average.mean(self.values) if averaged and self.average else self.values]

    def state(self) -> dict[str, np.ndarray]:
        """A copy of everything, by block: "name:start:stop" → [values, slot of state, …, sums of an average]."""
        return {
            f"{name}:{start}:{stop}": np.stack(self._lines(at, stop - start))
            for (name, start, stop), at in self._places
        }

    def _lines(self, at: int, size: int) -> list[np.ndarray]:
        """Views of the values and of each slot of state of a block."""
        run = next(run for run in reversed(self._runs) if run.start <= at)
        local = slice(at - run.start, at - run.start + size)
        sums = self.average.sums if self.average else ()
        return [self.values[at : at + size], *(slot[local] for slot in run.state), *(s[at : at + size] for s in sums)]

    def restore(self, pieces: Mapping[str, np.ndarray]) -> None:
        """Take up what `state` gave, here or in services that were cut differently: pieces that cover the blocks."""
        by_name: dict[str, list[tuple[int, int, np.ndarray]]] = {}
        for key, piece in pieces.items():
            owner, first, last = key.rsplit(":", 2)
            by_name.setdefault(owner, []).append((int(first), int(last), piece))
        for (name, start, stop), at in self._places:
            lines = self._lines(at, stop - start)
            reached = start
            for piece_start, piece_stop, piece in sorted(by_name.get(name, ()), key=lambda item: item[:2]):
                low, high = max(piece_start, reached), min(piece_stop, stop)
                if low >= high:
                    continue
                if low > reached:
                    break
                if len(piece) != len(lines):
                    raise InputError(
                        f"the checkpoint holds {len(piece) - 1} slots of optimizer state for parameter {name!r} and this "
                        f"job's optimizer has {len(lines) - 1}: resume with the optimizer the checkpoint was written with"
                    )
                for line, source in zip(lines, piece, strict=True):
                    line[low - start : high - start] = source[low - piece_start : high - piece_start]
                reached = high
            if reached < stop:
                raise InputError(
                    f"the checkpoint lacks elements {reached} to {stop} of parameter {name!r}: it belongs to another model"
                )
