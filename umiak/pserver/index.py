"""From 64-bit ids to row numbers: a hash index with open addressing that grows and forgets ids on request.

A cell is 16 bytes: the id, where its row is, and the pass of its last touch; zeroed memory is an empty cell. An id that
must be touched several times before it gets a row waits in a list of its own. What a lookup returns for it is a ticket,
which leads to its row from the moment there is one until the pass after the next begins.

An index that is full is followed by one twice as large, whose memory is touched beforehand, a part with every lookup: new
pages cost more than all the rest. Ids move there little by little, some with every lookup and those looked up at once. So no
round waits for all of it.

Row numbers depend on the order of arrival. Nothing that leaves a table does but the order of rows in a checkpoint.
"""

from __future__ import annotations

import numpy as np

from umiak.pserver import cells
from umiak.pserver.cells import ABSENT, FREE, FREE_TICKETS, NEW, RIPE, ROWS, TICKETS, USED
from umiak.pserver.memory import Growing

_LOAD = 0.7
_FIRST = 1 << 17
_SOME = 1 << 16
_NEARLY = 0.85
_PAGE = 4096 // 16


class RowIndex:
    """Row numbers of ids. They start at 0; the number of a removed row is given again."""

    def __init__(self, min_count: int, track_passes: bool) -> None:
        self.min_count = min_count if min_count > 1 else 0
        self.track_passes = track_passes
        self._views = _new_cells(_FIRST)
        self._old: tuple[np.ndarray, np.ndarray] | None = None
        self._next: tuple[np.ndarray, np.ndarray] | None = None
        self._touched = 0
        """How many cells of the next index have their memory."""
        self._carried = 0
        """How many cells of the old index have been seen to: their ids are in the new one."""
        self._waiting = Growing(16, 1)
        self._counts = np.zeros(cells.COUNTS, np.int64)
        self._free = self._free_tickets = self._ripe = self._settled_before = np.empty(0, np.int32)
        self._settled: list[np.ndarray] = []

    @property
    def rows(self) -> int:
        """How many ids have a row."""
        return int(self._counts[ROWS] - self._counts[FREE])

    @property
    def waiting(self) -> int:
        """How many ids have been touched and have no row yet."""
        return int(self._counts[USED]) - self.rows

    @property
    def highest(self) -> int:
        """One more than the highest row number ever given."""
        return int(self._counts[ROWS])

    @property
    def bytes(self) -> int:
        others = sum(views[0].nbytes for views in (self._old, self._next) if views)
        return self._views[0].nbytes + others + int(self._counts[TICKETS]) * self._waiting.width

    @property
    def _room(self) -> int:
        """How many ids may be in the index."""
        return int(len(self._views[0]) * _LOAD)

    def find(self, ids: np.ndarray, rows: np.ndarray) -> None:
        """Write each id's row number, ABSENT where it has none. Changes nothing."""
        cells.find(*self._views, ids, rows)
        if self._old:
            cells.find_left(*self._old, self._carried, ids, rows)

    def touch(
        self,
        ids: np.ndarray,
        rows: np.ndarray,
        done: int,
        capacity: int,
        most: int,
        pass_id: int,
        at_once: bool = False,
        again: bool = False,
    ) -> tuple[int, np.ndarray]:
        """Write the row number or ticket of each id from `done` on, making rows while there are fewer than `most`.

        Returns how far it came, which is short of the end when a row number below `capacity` was not to be had, and the
        positions of the ids whose rows are new. With `at_once` no id has to wait for its row; `again`
        repeats a lookup from before a restart, which the counts of touches know already.
        """
        new = np.empty(ids.size - done, np.int32)
        if self.min_count:
            self._ripe = _at_least(self._ripe, int(self._counts[RIPE]) + ids.size)
        while True:
            if self._old:
                self._pull(ids[done:])
                self._carry(max(_SOME, 8 * ids.size))
            elif self._counts[USED] >= _NEARLY * self._room:
                self._prepare(max(_SOME, 32 * ids.size))
            done = cells.touch(
                *self._views,
                *self._tickets(),
                self._counts,
                self._free,
                self._free_tickets,
                self._ripe,
                ids,
                rows,
                new,
                done,
                self._room,
                capacity,
                most,
                0 if at_once else self.min_count,
                pass_id if self.track_passes else -1,
                again,
            )
            if done < ids.size and self._make_room():
                continue
            made = new[: int(self._counts[NEW])]
            self._counts[NEW] = 0
            return done, made

    def _tickets(self) -> tuple[np.ndarray, np.ndarray]:
        return self._waiting.array(np.int64), self._waiting.array(np.int32)

    def _make_room(self) -> bool:
        """Grow what is full of the index itself; False when it is not the index that lacks room."""
        if self._counts[USED] >= self._room:
            self._follow(2 * len(self._views[0]))
            return True
        if self.min_count and not self._counts[FREE_TICKETS] and self._counts[TICKETS] >= self._waiting.lines:
            self._waiting.grow(2 * self._waiting.lines)
            return True
        return False

    def reserve(self, ids: int) -> None:
        """Make room for this many ids in all."""
        capacity = len(self._views[0])
        while int(capacity * _LOAD) < ids:
            capacity *= 2
        if capacity > len(self._views[0]):
            self._follow(capacity)
            self._carry_all()

    def _follow(self, capacity: int) -> None:
        """Go on with an index of so many cells; the ids of the present one come after."""
        self._carry_all()
        self._old, self._carried = self._views, 0
        prepared, self._next = self._next, None
        self._views = prepared if prepared and len(prepared[0]) == capacity else _new_cells(capacity)

    def _prepare(self, count: int) -> None:
        """Have memory for so many more cells of the index that will follow."""
        if not self._next:
            self._next, self._touched = _new_cells(2 * len(self._views[0])), 0
        self._next[0][self._touched : self._touched + count : _PAGE] = 0
        self._touched += count

    def _pull(self, ids: np.ndarray) -> None:
        """Have these ids, as far as they are known, in the new index."""
        if self._old:
            cells.pull(*self._views, *self._old, self._carried, ids)

    def _carry(self, count: int) -> None:
        """See to so many cells of the old index."""
        if self._old:
            stop = min(self._carried + count, len(self._old[0]))
            cells.carry(*self._views, *self._old, self._carried, stop)
            self._carried = stop
            if stop == len(self._old[0]):
                self._old = None

    def _carry_all(self) -> None:
        if self._old:
            self._carry(len(self._old[0]))

    def admit(self) -> tuple[np.ndarray, np.ndarray]:
        """Give rows to the ids that have been touched often enough: these ids and their rows."""
        tickets = self._ripe[: self.due].copy()
        self._pull(self._tickets()[0][tickets, 0])
        ids, rows = np.empty(tickets.size, np.int64), np.empty(tickets.size, np.int32)
        cells.admit(*self._views, *self._tickets(), self._counts, self._free, tickets, ids, rows)
        self._counts[RIPE] = 0
        self._settled.append(tickets)
        return ids, rows

    def recycle(self) -> None:
        """Once per pass: the tickets of ids that got a row in an earlier pass are free again, as nobody holds them now."""
        free = int(self._counts[FREE_TICKETS])
        self._free_tickets = _at_least(self._free_tickets, int(self._counts[TICKETS]))
        self._free_tickets[free : free + self._settled_before.size] = self._settled_before
        self._counts[FREE_TICKETS] += self._settled_before.size
        self._settled_before = np.concatenate([np.empty(0, np.int32), *self._settled])
        self._settled = []

    @property
    def due(self) -> int:
        """How many ids `admit` would give a row."""
        return int(self._counts[RIPE])

    def settle(self, rows: np.ndarray) -> np.ndarray:
        """Replace tickets in `rows` whose ids have a row by now; the ids of those that have none, in order."""
        held = np.flatnonzero(rows < ABSENT)
        ids, waiting = self._tickets()
        tickets = -2 - rows[held]
        found = waiting[tickets, cells.ROW]
        rows[held] = np.where(found == ABSENT, rows[held], found)
        return ids[tickets[found == ABSENT], 0]

    def expire(self, oldest: int) -> int:
        """Forget ids last touched before pass `oldest`; how many rows that freed."""
        before = int(self._counts[FREE])
        self._free = _at_least(self._free, self.highest)
        self._free_tickets = _at_least(self._free_tickets, int(self._counts[TICKETS]))
        self._carry_all()
        cells.expire(*self._views, self._counts, self._free, self._free_tickets, oldest)
        return int(self._counts[FREE]) - before

    def sorted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All ids that have a row, in order; their row numbers; their last passes."""
        return self._sorted(self.rows, True)

    def sorted_waiting(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All ids that wait for a row, in order; their touches; their last passes."""
        return self._sorted(self.waiting, False)

    def by_row(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which row numbers are in use; the ids that have them and their last passes, in the order of the numbers."""
        ids, numbers, passes = self._collect(self.rows, True)
        used = np.zeros(self.highest, np.bool_)
        used[numbers] = True
        # A writer has little memory beside that of its server: what is done with goes before more is made.
        places = numbers if used.all() else np.cumsum(used, dtype=np.int32)[numbers] - 1
        del numbers
        placed_ids = np.empty_like(ids)
        placed_ids[places] = ids
        if self.track_passes:
            placed_passes = np.empty_like(passes)
            placed_passes[places] = passes
            passes = placed_passes
        return used, placed_ids, passes

    def _sorted(self, size: int, with_row: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        ids, numbers, passes = self._collect(size, with_row)
        order = np.argsort(ids)
        return ids[order], numbers[order], passes[order]

    def _collect(self, size: int, with_row: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        ids, numbers, passes = np.empty(size, np.int64), np.empty(size, np.int32), np.zeros(size, np.int32)
        self._carry_all()
        cells.collect(*self._views, self._tickets()[1], with_row, ids, numbers, passes)
        return ids, numbers, passes

    def mark(self, ids: np.ndarray, passes: np.ndarray, touches: np.ndarray) -> None:
        """Set what `sorted` or `sorted_waiting` told of ids that are known by now."""
        self._ripe = _at_least(self._ripe, self.due + ids.size)
        waiting = self._tickets()[1]
        self._pull(ids)
        cells.mark(*self._views, waiting, self._counts, self._ripe, ids, passes, touches, self.min_count)


def _new_cells(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Empty cells, as ids and as the numbers beside them."""
    memory = Growing(16, count)
    return memory.array(np.int64)[:count], memory.array(np.int32)[:count]


def _at_least(array: np.ndarray, size: int) -> np.ndarray:
    """The array, or a longer one that begins with it."""
    if array.size >= size:
        return array
    longer = np.empty(max(size, 2 * array.size), array.dtype)
    longer[: array.size] = array
    return longer
