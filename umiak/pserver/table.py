"""A sparse table, or one service's part of it: rows by 64-bit id, made when first touched, updated once per round.

What a table holds is a pure function of its seed and of the ids and gradients of each round; the order in which messages
arrive changes only which memory a row lives in. Which ids belong to a service is not decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from umiak.errors import InputError, UmiakError
from umiak.pserver import rows as loops
from umiak.pserver.cells import ABSENT, outside
from umiak.pserver.index import RowIndex
from umiak.pserver.memory import Growing, plain
from umiak.pserver.optimizers import Clock, formula
from umiak.pserver.rowinit import RowInit
from umiak.spec.optim import Optimizer, ParamOptions

_NO_IDS = np.empty(0, np.int64)
_MOST = int(np.iinfo(np.int32).max) - 1
_SMALL = 1 << 20


class Chunk(NamedTuple):
    """Rows on their way to or from a file: ids, whole rows (values and state as they lie in memory), last passes."""

    ids: np.ndarray
    rows: np.ndarray
    passes: np.ndarray


class Export:
    """All rows of a table in the order of their ids. The table must not change meanwhile; a forked child has its own."""

    def __init__(self, table: Table, index: RowIndex) -> None:
        self._table = table
        self.ids, self._numbers, self.passes = index.sorted()

    def rows(self, chunk: int = 1 << 16) -> Iterator[np.ndarray]:
        """Whole rows, values and state as they lie in memory, some at a time."""
        for start in range(0, self.ids.size, chunk):
            yield self._table.memory()[self._numbers[start : start + chunk]]

    def values(self, chunk: int = 1 << 16) -> Iterator[np.ndarray]:
        """The values alone, as float32, some rows at a time."""
        for start in range(0, self.ids.size, chunk):
            numbers = self._numbers[start : start + chunk]
            out = np.empty((numbers.size, self._table.dim), np.float32)
            self._table.gather(numbers, out)
            yield out

    def __iter__(self) -> Iterator[Chunk]:
        start = 0
        for rows in self.rows():
            part = slice(start, start + len(rows))
            yield Chunk(self.ids[part], rows, self.passes[part])
            start += len(rows)


class Lying:
    """All rows of a table in the order they lie in memory, which is far faster to write than that of their ids.

    With `release`, in a forked child, their memory is given back as soon as they are out: until then every page that the
    server changes is there twice.
    """

    def __init__(self, memory: Growing, index: RowIndex, release: bool) -> None:
        self._memory, self._release = memory, release
        self._used, self.ids, self.passes = index.by_row()
        self._all_used = bool(self._used.all())

    def rows(self, chunk: int = 1 << 16) -> Iterator[np.ndarray]:
        """Whole rows, values and state as they lie in memory, some at a time."""
        for start in range(0, self._used.size, chunk):
            stop = min(start + chunk, self._used.size)
            rows = self._memory.array(np.float32)[start:stop]
            yield rows if self._all_used else rows[self._used[start:stop]]
            if self._release:
                self._memory.release(start, stop)


class TableStats(NamedTuple):
    """What a log line says of a table. Touches, new and expired rows count from the start of this process."""

    rows: int
    waiting: int
    bytes: int
    touches: int
    new: int
    expired: int

    @property
    def new_share(self) -> float:
        """The share of touches that made a new row."""
        return self.new / self.touches if self.touches else 0.0


class Table:
    """Rows of `dim` values with the optimizer's state beside them.

    A round is: `locate` the ids each trainer wants next, `add` each trainer's gradients in trainer order, `step` once, then
    `gather` what was wanted. Row numbers from `locate` stay good until the pass after the next one begins.
    """

    def __init__(
        self,
        name: str,
        dim: int,
        seed: int,
        init: Mapping[str, Any],
        optimizer: Optimizer,
        options: ParamOptions | None = None,
        *,
        vocab: int | None = None,
        min_count: int = 0,
        expire_after: int | None = None,
        max_rows: int | None = None,
        dtype: str = "float32",
    ) -> None:
        self.name, self.dim, self.vocab = name, dim, vocab
        for field, value, least in (
            ("min_count", min_count, 0),
            ("expire_after", expire_after, 1),
            ("max_rows", max_rows, 1),
        ):
            if value is not None and value < least:
                raise InputError(f"table {name!r}: {field} must be at least {least}, not {value!r}")
        if dtype not in ("float32", "float16"):
            raise InputError(f'table {name!r}: dtype must be "float32" or "float16", not {dtype!r}')
        self.max_rows, self.expire_after = max_rows, expire_after
        self._most = _MOST if max_rows is None else max_rows
        self.init = RowInit.of(seed, name, init)
        self.optimizer = (options or ParamOptions()).applied_to(optimizer)
        self.half = dtype == "float16"
        self._formula = formula(self.optimizer, rows=True)
        self._initial = np.array(self._formula.initial, np.float32)
        self._lead = (dim + 1) // 2 if self.half else dim
        self.width = self._lead + dim * len(self._initial)
        self._index = RowIndex(min_count, expire_after is not None)
        stays = min_count <= 1 and expire_after is None
        self._known = np.full(vocab if stays and vocab and vocab <= _SMALL else 0, ABSENT, np.int32)
        """The row of each id of a small vocabulary, once it was located: rows that never move need no search."""
        self._rows = Growing(4 * self.width, 1)
        self._place = Growing(4, self._rows.lines)
        self._total = np.empty((0, dim), np.float32)
        self._touched = np.empty(0, np.int32)
        self._count = 0
        self._touches = self._new = self._expired = 0

    def _views(self) -> tuple[np.ndarray, np.ndarray, bool]:
        return self._rows.array(np.float32), self._rows.array(np.uint16), self.half

    def locate(self, ids: np.ndarray, create: bool = True, pass_id: int = 0, again: bool = False) -> np.ndarray:
        """Row numbers of ids, for `gather` and `add`. With `create` the ids count as touched and get rows; else -1 is absent.

        After a restart, what was located before the checkpoint and is asked for once more is located `again`: `min_count`
        has counted it already.
        """
        ids = plain(ids, np.int64)
        rows = np.empty(ids.size, np.int32)
        if not create:
            self._index.find(ids, rows)
            return rows
        if self.vocab is not None and (bad := outside(ids, self.vocab)) >= 0:
            raise InputError(
                f"id {ids[bad]} is outside table {self.name!r}, which declares {self.vocab} rows: fix the data"
            )
        self._touches += ids.size
        if self._known.size and ids.size:
            known = self._known[ids]
            if known.min() >= 0:
                return known
        done = 0
        while True:
            done, new = self._index.touch(ids, rows, done, self._rows.lines, self._most, pass_id, again=again)
            if new.size:
                self._start(ids[new], rows[new])
            if done == ids.size:
                break
            self._make_room(1)
        if self._known.size:
            self._known[ids] = rows
        return rows

    def _make_room(self, more: int) -> None:
        """Grow the memory for this many more rows, within the limit the user set."""
        if self._index.rows + more > self._most:
            size = self.bytes // max(1, self._index.rows)
            raise InputError(
                f"table {self.name!r} is full: it holds {self._index.rows:,} rows of {size} bytes and max_rows is "
                f"{self._most:,}; raise max_rows if memory allows, add servers, or keep rare ids out with min_count and "
                "old ones with expire_after"
            )
        lines = self._rows.lines
        if self._index.highest + more > lines:
            self._rows.grow(max(lines + lines // 2, self._index.highest + more))
            self._place.grow(self._rows.lines)

    def reserve(self, rows: int) -> None:
        """Make room for this many rows in all, before many are restored."""
        self._index.reserve(rows)
        self._rows.grow(rows)
        self._place.grow(self._rows.lines)

    def _start(self, ids: np.ndarray, rows: np.ndarray) -> None:
        """Give new rows their first values and state."""
        self._new += ids.size
        values = np.empty((ids.size, self.dim), np.float32)
        self.init.fill(ids, values)
        loops.scatter(*self._views(), rows, values)
        loops.reset_state(self.memory(), rows, self._lead, self.dim, self._initial)

    def _first_values(self, ids: np.ndarray) -> np.ndarray:
        values = np.empty((ids.size, self.dim), np.float32)
        self.init.fill(ids, values)
        return values.astype(np.float16).astype(np.float32) if self.half else values

    def gather(self, rows: np.ndarray, out: np.ndarray) -> None:
        """Write the values of located rows into the lines of `out`; an id that waits for its row has its first value."""
        waiting = self._index.settle(rows) if self._index.min_count else _NO_IDS
        loops.gather(*self._views(), rows, out)
        if waiting.size:
            out[rows < ABSENT] = self._first_values(waiting)

    def peek(self, ids: np.ndarray, out: np.ndarray) -> None:
        """Write the values of ids into the lines of `out` without touching them; absent ones have their first value."""
        ids = plain(ids, np.int64)
        rows = self.locate(ids, create=False)
        loops.gather(*self._views(), rows, out)
        absent = rows == ABSENT
        if absent.any():
            out[absent] = self._first_values(ids[absent])

    def add(self, rows: np.ndarray, grads: np.ndarray, weight: float = 1.0) -> str | None:
        """Add a trainer's gradients of located rows times its weight, called in trainer order.

        Gives the table's name if one is not finite.

        Gradients of ids that still wait for their row are dropped.
        """
        if grads.shape != (rows.size, self.dim):
            raise ValueError(f"gradients of {rows.size} × {self.dim} are due, not {grads.shape}")
        if self._index.min_count:
            self._index.settle(rows)
        need = self._count + rows.size
        if need > self._touched.size:
            self._touched = np.concatenate([self._touched[: self._count], np.empty(2 * need - self._count, np.int32)])
            total = np.empty((2 * need, self.dim), np.float32)
            total[: self._count] = self._total[: self._count]
            self._total = total
        place = self._place.array(np.int32)
        grads = plain(grads, np.float32)
        self._count, finite = loops.add(place, self._touched, self._total, self._count, rows, grads, np.float32(weight))
        return None if finite else self.name

    def step(self, total: float, clock: Clock) -> None:
        """Update every row that was added to, dividing its sum by `total` samples; then make the rows that are due."""
        count, self._count = self._count, 0
        numbers = self._formula.settings(self.optimizer, total, clock, True) if count and total > 0 else None
        if numbers is not None:
            touched, sums = self._touched[:count], self._total[:count]
            wide = np.empty((count if self.half else 0, self.dim), np.float32)
            if self.half:
                loops.gather(*self._views(), touched, wide)
            self._formula.step_rows(self._formula.kind, numbers, self.memory(), wide, self.dim, touched, sums)
            if self.half:
                loops.scatter(*self._views(), touched, wide)
        if self._index.due:
            self._make_room(self._index.due)
            self._start(*self._index.admit())

    @property
    def catches_up(self) -> bool:
        """Whether the optimizer changes rows that no gradient touches; it then needs all rows of the vocabulary."""
        return self._formula.catch_up is not None

    def catch_up(self, clock: Clock) -> None:
        """At the end of a pass: what the optimizer still owes to rows that the last steps did not touch."""
        if self._formula.catch_up is not None:
            numbers = self._formula.settings(self.optimizer, 1, clock, True)
            if numbers is not None:
                self._formula.catch_up(self._formula.kind, numbers, self.memory(), self.dim, self._index.sorted()[1])

    def end_pass(self, next_pass: int) -> int:
        """Remove rows that were not touched in the `expire_after` passes before `next_pass`; how many."""
        self._index.recycle()
        if self.expire_after is None:
            return 0
        expired = self._index.expire(next_pass - self.expire_after)
        self._expired += expired
        return expired

    @property
    def bytes(self) -> int:
        lines = self._index.highest * (self._rows.width + self._place.width)
        return lines + self._index.bytes + self._known.nbytes

    def stats(self) -> TableStats:
        index = self._index
        return TableStats(index.rows, index.waiting, self.bytes, self._touches, self._new, self._expired)

    def export(self) -> Export:
        """All rows, in the order of their ids."""
        return Export(self, self._index)

    def lying(self, release: bool) -> Lying:
        """All rows, in the order they lie in memory; with `release` they are gone afterwards."""
        return Lying(self._rows, self._index, release)

    def memory(self) -> np.ndarray:
        """A view of the rows by number. Nobody may keep it: while there is one, the table cannot grow."""
        return self._rows.array(np.float32)

    def export_waiting(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ids that wait for their row, in order; how often each was touched; their last passes."""
        return self._index.sorted_waiting()

    def restore(self, ids: np.ndarray, rows: np.ndarray, passes: np.ndarray) -> None:
        """Take up rows that `export` gave; any number of times, in any order."""
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise InputError(
                f"the checkpoint's rows of table {self.name!r} are {rows.shape[-1]} floats and this job's are {self.width}: "
                "dim, dtype and optimizer must be those the checkpoint was written with"
            )
        numbers = self._insert(ids)
        if numbers.size and (np.diff(numbers) == 1).all():  # an empty table gives them in order
            self.memory()[numbers[0] : numbers[0] + numbers.size] = rows
        else:
            self.memory()[numbers] = rows
        if self._index.track_passes:
            self._index.mark(plain(ids, np.int64), plain(passes, np.int32), plain(passes, np.int32))

    def set_values(self, ids: np.ndarray, values: np.ndarray, pass_id: int = 0) -> None:
        """Rows with these values and the state of new ones: what a snapshot, which holds no state, gives."""
        rows = self._insert(ids, pass_id)
        loops.scatter(*self._views(), rows, plain(values, np.float32))
        loops.reset_state(self.memory(), rows, self._lead, self.dim, self._initial)

    def _insert(self, ids: np.ndarray, pass_id: int = 0) -> np.ndarray:
        """Row numbers of ids that have or get a row at once, whatever lies in it."""
        ids, rows = plain(ids, np.int64), np.empty(ids.size, np.int32)
        done = 0
        while True:
            done, _ = self._index.touch(ids, rows, done, self._rows.lines, self._most, pass_id, at_once=True)
            if done == ids.size:
                break
            self._make_room(1)
        if rows.size and rows.min() < 0:
            raise UmiakError(f"table {self.name!r} was restored twice, an id with a row after the same id without one")
        return rows

    def restore_waiting(self, ids: np.ndarray, touches: np.ndarray, passes: np.ndarray) -> None:
        """Take up what `export_waiting` gave; nothing where ids no longer wait for rows."""
        if self._index.min_count:
            ids = plain(ids, np.int64)
            self._index.touch(ids, np.empty(ids.size, np.int32), 0, self._rows.lines, self._most, 0, again=True)
            self._index.mark(ids, plain(passes, np.int32), plain(touches, np.int32))
