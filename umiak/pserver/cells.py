"""The compiled loops of `index.py` over cells and waiting ids; the meaning of their columns is told there."""

from __future__ import annotations

import numba
import numpy as np

from umiak.pserver.intrinsics import AHEAD, prefetch

jit = numba.njit(cache=True, nogil=True, error_model="numpy")

ABSENT = -1
MOVED = np.int32(-(1 << 31))
"""In place of a row's number: the id is in the index that follows this one. Its cell stays on the way to others."""
WHERE, PASS = 2, 3
TOUCHES, ROW = 2, 3
USED, ROWS, FREE, TICKETS, FREE_TICKETS, RIPE, NEW = range(7)
COUNTS = 7


@jit
def _home(key: np.int64, mask: np.uint64) -> np.uint64:
    """The cell an id should be in, if it is free (splitmix64)."""
    x = np.uint64(key)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))) & mask


@jit
def _seek(keys: np.ndarray, cells: np.ndarray, key: np.int64, mask: np.uint64) -> np.uint64:
    """The cell that holds an id, or the empty one where it belongs."""
    at = _home(key, mask)
    while cells[at, WHERE] != 0 and keys[at, 0] != key:
        at = (at + np.uint64(1)) & mask
    return at


@jit
def _take_row(counts: np.ndarray, free: np.ndarray) -> np.int32:
    """A row number that is not in use."""
    if counts[FREE] > 0:
        counts[FREE] -= 1
        return free[counts[FREE]]
    counts[ROWS] += 1
    return np.int32(counts[ROWS] - 1)


@jit
def outside(ids: np.ndarray, vocab: np.int64) -> np.int64:
    """The position of the first id that is not from 0 to vocab - 1; -1 if there is none."""
    bad = np.int64(0)
    for i in range(ids.size):
        bad |= np.int64(np.uint64(ids[i]) >= np.uint64(vocab))
    if bad:
        for i in range(ids.size):
            if ids[i] < 0 or ids[i] >= vocab:
                return np.int64(i)
    return np.int64(-1)


@jit
def find(keys: np.ndarray, cells: np.ndarray, ids: np.ndarray, rows: np.ndarray) -> None:
    mask = np.uint64(keys.shape[0] - 1)
    for i in range(ids.size):
        if i + AHEAD < ids.size:
            prefetch(keys, np.int64(_home(ids[i + AHEAD], mask)), 0)
        where = cells[_seek(keys, cells, ids[i], mask), WHERE]
        rows[i] = where - 1 if where > 0 else ABSENT


@jit
def touch(
    keys: np.ndarray,
    cells: np.ndarray,
    waiting_ids: np.ndarray,
    waiting: np.ndarray,
    counts: np.ndarray,
    free: np.ndarray,
    free_tickets: np.ndarray,
    ripe: np.ndarray,
    ids: np.ndarray,
    rows: np.ndarray,
    new: np.ndarray,
    start: int,
    room: int,
    capacity: int,
    most: int,
    min_count: int,
    pass_id: int,
    again: bool,
) -> int:
    """Look up and create; stops before the first id for which there is no cell, row or ticket left.

    Touches of ids that wait are counted unless they are made `again`.
    """
    mask = np.uint64(keys.shape[0] - 1)
    for i in range(start, ids.size):
        if i + AHEAD < ids.size:
            prefetch(keys, np.int64(_home(ids[i + AHEAD], mask)), 0)
        at = _seek(keys, cells, ids[i], mask)
        where = cells[at, WHERE]
        if where == 0:
            if counts[USED] >= room:
                return i
            if min_count == 0:
                if counts[ROWS] - counts[FREE] >= most or (counts[FREE] == 0 and counts[ROWS] >= capacity):
                    return i
                where = _take_row(counts, free) + np.int32(1)
                new[counts[NEW]] = i
                counts[NEW] += 1
            else:
                if counts[FREE_TICKETS] > 0:
                    counts[FREE_TICKETS] -= 1
                    ticket = free_tickets[counts[FREE_TICKETS]]
                elif counts[TICKETS] < waiting.shape[0]:
                    ticket = np.int32(counts[TICKETS])
                    counts[TICKETS] += 1
                else:
                    return i
                waiting_ids[ticket, 0] = ids[i]
                waiting[ticket, TOUCHES] = 0
                waiting[ticket, ROW] = ABSENT
                where = np.int32(-1) - ticket
            keys[at, 0] = ids[i]
            cells[at, WHERE] = where
            counts[USED] += 1
        if cells[at, PASS] < pass_id:
            cells[at, PASS] = pass_id
        if where < 0 and not again:
            ticket = np.int32(-1) - where
            waiting[ticket, TOUCHES] += 1
            if waiting[ticket, TOUCHES] == min_count:
                ripe[counts[RIPE]] = ticket
                counts[RIPE] += 1
        rows[i] = where - 1
    return ids.size


@jit
def admit(
    keys: np.ndarray,
    cells: np.ndarray,
    waiting_ids: np.ndarray,
    waiting: np.ndarray,
    counts: np.ndarray,
    free: np.ndarray,
    tickets: np.ndarray,
    ids: np.ndarray,
    rows: np.ndarray,
) -> None:
    """Give the ids of these tickets a row each."""
    mask = np.uint64(keys.shape[0] - 1)
    for i in range(tickets.size):
        ids[i] = waiting_ids[tickets[i], 0]
        rows[i] = _take_row(counts, free)
        waiting[tickets[i], ROW] = rows[i]
        cells[_seek(keys, cells, ids[i], mask), WHERE] = rows[i] + 1


@jit
def _enter(keys: np.ndarray, cells: np.ndarray, key: np.int64, where: np.int32, last: np.int32) -> None:
    """Put an id that is not there yet where it belongs."""
    to = _seek(keys, cells, key, np.uint64(keys.shape[0] - 1))
    keys[to, 0] = key
    cells[to, WHERE] = where
    cells[to, PASS] = last


@jit
def carry(
    keys: np.ndarray, cells: np.ndarray, old_keys: np.ndarray, old_cells: np.ndarray, start: int, stop: int
) -> None:
    """Enter what stands in some cells of an outgrown index into the one that follows it."""
    for at in range(start, stop):
        where = old_cells[at, WHERE]
        if where != 0 and where != MOVED:
            _enter(keys, cells, old_keys[at, 0], where, old_cells[at, PASS])


@jit
def pull(
    keys: np.ndarray, cells: np.ndarray, old_keys: np.ndarray, old_cells: np.ndarray, carried: int, ids: np.ndarray
) -> None:
    """Enter these ids into the index that follows, as far as the old one knows them and they were not `carried` yet."""
    mask = np.uint64(old_keys.shape[0] - 1)
    for i in range(ids.size):
        if i + AHEAD < ids.size:
            prefetch(old_keys, np.int64(_home(ids[i + AHEAD], mask)), 0)
        at = _seek(old_keys, old_cells, ids[i], mask)
        where = old_cells[at, WHERE]
        if where != 0 and where != MOVED and np.int64(at) >= carried:
            _enter(keys, cells, ids[i], where, old_cells[at, PASS])
            old_cells[at, WHERE] = MOVED


@jit
def find_left(old_keys: np.ndarray, old_cells: np.ndarray, carried: int, ids: np.ndarray, rows: np.ndarray) -> None:
    """Write the row numbers of ids that only the old index knows."""
    mask = np.uint64(old_keys.shape[0] - 1)
    for i in range(ids.size):
        if rows[i] == ABSENT:
            at = _seek(old_keys, old_cells, ids[i], mask)
            if old_cells[at, WHERE] > 0 and np.int64(at) >= carried:
                rows[i] = old_cells[at, WHERE] - 1


@jit
def expire(
    keys: np.ndarray,
    cells: np.ndarray,
    counts: np.ndarray,
    free: np.ndarray,
    free_tickets: np.ndarray,
    oldest: int,
) -> None:
    """Empty the cells of ids last touched before pass `oldest`, closing the gaps; their rows and tickets become free."""
    mask = np.uint64(keys.shape[0] - 1)
    at = 0
    while at < keys.shape[0]:
        where = cells[at, WHERE]
        if where == 0 or cells[at, PASS] >= oldest:
            at += 1
            continue
        if where > 0:
            free[counts[FREE]] = where - 1
            counts[FREE] += 1
        else:
            free_tickets[counts[FREE_TICKETS]] = np.int32(-1) - where
            counts[FREE_TICKETS] += 1
        counts[USED] -= 1
        hole = np.uint64(at)
        ahead = (hole + np.uint64(1)) & mask
        while cells[ahead, WHERE] != 0:
            # An id may move back into the hole only if the hole is on the way from its home.
            if ((ahead - _home(keys[ahead, 0], mask)) & mask) >= ((ahead - hole) & mask):
                keys[hole, 0] = keys[ahead, 0]
                cells[hole, WHERE] = cells[ahead, WHERE]
                cells[hole, PASS] = cells[ahead, PASS]
                hole = ahead
            ahead = (ahead + np.uint64(1)) & mask
        cells[hole, WHERE] = 0
        cells[hole, PASS] = 0


@jit
def collect(
    keys: np.ndarray,
    cells: np.ndarray,
    waiting: np.ndarray,
    with_row: bool,
    ids: np.ndarray,
    numbers: np.ndarray,
    passes: np.ndarray,
) -> None:
    """All ids that have a row, with its number, or all that wait for one, with their touches; in no order."""
    n = 0
    for at in range(keys.shape[0]):
        where = cells[at, WHERE]
        if where != 0 and (where > 0) == with_row:
            ids[n] = keys[at, 0]
            numbers[n] = where - 1 if with_row else waiting[-1 - where, TOUCHES]
            if cells[at, PASS] != 0:
                passes[n] = cells[at, PASS]
            n += 1


@jit
def mark(
    keys: np.ndarray,
    cells: np.ndarray,
    waiting: np.ndarray,
    counts: np.ndarray,
    ripe: np.ndarray,
    ids: np.ndarray,
    passes: np.ndarray,
    touches: np.ndarray,
    min_count: int,
) -> None:
    """Set the last pass of known ids, and the touches of those that wait."""
    mask = np.uint64(keys.shape[0] - 1)
    for i in range(ids.size):
        at = _seek(keys, cells, ids[i], mask)
        where = cells[at, WHERE]
        cells[at, PASS] = passes[i]
        if where < 0:
            ticket = np.int32(-1) - where
            waiting[ticket, TOUCHES] = touches[i]
            if touches[i] >= min_count:
                ripe[counts[RIPE]] = ticket
                counts[RIPE] += 1
