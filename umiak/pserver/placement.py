"""Which service holds what. Pure functions that every trainer and every service computes alike."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numba
import numpy as np

Block = tuple[str, int, int]
LEAST_BYTES = 1 << 18
"""What a service should at least hold: for less, its messages cost more than they spare the others."""


def holders(services: Sequence[tuple[bool, bool]], size: int | None) -> list[tuple[bool, bool]]:
    """Of services that may hold (dense values, rows), which do in a model of `size` bytes; None is one that grows.

    A small model is on few services, the first ones: they are asked in every round, and the others never.
    """
    if size is None:
        return list(services)
    needed = max(1, -(-size // LEAST_BYTES))
    dense = accumulate(dense for dense, _ in services)
    rows = accumulate(rows for _, rows in services)
    return [(d and nd <= needed, r and nr <= needed) for (d, r), nd, nr in zip(services, dense, rows, strict=True)]


def model_bytes(dense: int, tables: Sequence[tuple[int | None, int]]) -> int | None:
    """Of so many dense values and tables of (vocabulary, values of a row); None if a table is open."""
    rows = 0
    for vocab, dim in tables:
        if vocab is None:
            return None
        rows += vocab * dim
    return 4 * (dense + rows)


def dense_blocks(parameters: Sequence[tuple[str, int]], services: int) -> list[list[Block]]:
    """Cut the parameters, laid end to end, into one contiguous run per service: the (name, start, stop) of its blocks."""
    total = sum(size for _, size in parameters)
    cuts = [total * index // services for index in range(services + 1)]
    starts = [0, *accumulate(size for _, size in parameters)]
    placed: list[list[Block]] = []
    for low, high in pairwise(cuts):
        blocks = []
        for (name, size), start in zip(parameters, starts, strict=False):
            first, last = max(low, start), min(high, start + size)
            if first < last:
                blocks.append((name, first - start, last - start))
        placed.append(blocks)
    return placed


@numba.njit(cache=True, nogil=True, error_model="numpy")
def owner(key: np.int64, services: np.int64) -> np.int64:
    """The sparse service, of `services`, that holds a row. Uses other bits of the hash than a table's own index does."""
    x = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    x ^= x >> np.uint64(32)
    x *= np.uint64(0xD6E8FEB86659FD93)
    return np.int64(((x >> np.uint64(40)) * np.uint64(services)) >> np.uint64(24))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def owned_by(ids: np.ndarray, service: np.int64, services: np.int64) -> np.ndarray:
    """Which of the ids belong to a service, as a mask."""
    mask = np.empty(ids.size, np.bool_)
    for i in range(ids.size):
        mask[i] = owner(ids[i], services) == service
    return mask


@numba.njit(cache=True, nogil=True, error_model="numpy")
def merge(ids: np.ndarray, services: np.int64) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Equal ids merged and grouped by service: the unique ids, how many each service holds, each input's position.

    Unique ids stand in order of first appearance within their service, so the result depends on the batch alone.
    """
    size = ids.size
    capacity = 16
    while capacity < 2 * size:
        capacity *= 2
    mask = np.uint64(capacity - 1)
    slot = np.zeros(capacity, np.int32)
    # Unique ids count from 1, and line 0 is made equal to whatever is looked for: an empty slot ends a search as a match
    # does, without a branch that nobody could predict.
    unique = np.empty(size + 2, np.int64)
    index = np.empty(size, np.int64)
    count = np.int32(0)
    for i in range(size):
        key = ids[i]
        x = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
        at = (x ^ (x >> np.uint64(29))) & mask
        unique[0] = key
        while unique[slot[at]] != key:
            at = (at + np.uint64(1)) & mask
        found = slot[at]
        is_new = found == 0
        unique[count + 1] = key
        count += np.int32(is_new)
        found = count if is_new else found
        slot[at] = found
        index[i] = found - 1
    unique = unique[1 : count + 1]
    counts = np.zeros(services, np.int64)
    if services == 1:
        counts[0] = count
        return unique.copy(), counts, index
    home = np.empty(count, np.int32)
    for u in range(count):
        home[u] = owner(unique[u], services)
        counts[home[u]] += 1
    start = np.zeros(services, np.int64)
    for s in range(1, services):
        start[s] = start[s - 1] + counts[s - 1]
    place = np.empty(count, np.int64)
    grouped = np.empty(count, np.int64)
    for u in range(count):
        place[u] = start[home[u]]
        start[home[u]] += 1
        grouped[place[u]] = unique[u]
    for i in range(size):
        index[i] = place[index[i]]
    return grouped, counts, index
