"""The compiled loops that move rows of tables: values out and in, gradients together. No arithmetic of optimizers.

A table is a matrix of float32 lines: a row's values, then its slots of state. Half-precision values fill the beginning of
the line, two to a float; `half` says so. float16 has no place in numba, so its bits are converted here, rounding to even.
"""

from __future__ import annotations

import numba
import numpy as np

from umiak.pserver.intrinsics import AHEAD, LINE, copy, prefetch

jit = numba.njit(cache=True, nogil=True, error_model="numpy")

NOT_FINITE = 0x7F800000


@jit
def _ask(table: np.ndarray, row: np.int64, floats: int) -> None:
    """Prefetch the first floats of a row."""
    for offset in range(0, 4 * floats, LINE):
        prefetch(table, row, offset)


@jit
def gather(table: np.ndarray, halves: np.ndarray, half: bool, rows: np.ndarray, out: np.ndarray) -> None:
    """Values of rows, as float32; lines of `out` whose row number is negative stay as they are."""
    dim = out.shape[1]
    ahead = (dim + 1) // 2 if half else dim
    source, target = table.reshape(-1), out.reshape(-1)
    for i in range(rows.size):
        if i + AHEAD < rows.size:
            _ask(table, np.int64(rows[i + AHEAD]), ahead)
        if rows[i] >= 0:
            if half:
                _widen(halves, rows[i], out, i)
            else:
                copy(target, i * dim, source, np.int64(rows[i]) * table.shape[1], dim)


@jit
def _widen(halves: np.ndarray, row: int, out: np.ndarray, line: int) -> None:
    """float16 → float32, exactly."""
    bits = out.view(np.uint32)
    for c in range(out.shape[1]):
        bits[line, c] = (np.uint32(halves[row, c]) & np.uint32(0x7FFF)) << np.uint32(13)
    for c in range(out.shape[1]):
        out[line, c] *= np.float32(2.0**112)
    for c in range(out.shape[1]):
        if (halves[row, c] & np.uint16(0x7C00)) == np.uint16(0x7C00):
            bits[line, c] |= np.uint32(NOT_FINITE)
        bits[line, c] |= (np.uint32(halves[row, c]) & np.uint32(0x8000)) << np.uint32(16)


@jit
def scatter(table: np.ndarray, halves: np.ndarray, half: bool, rows: np.ndarray, values: np.ndarray) -> None:
    """Set the values of rows."""
    dim = values.shape[1]
    target, source = table.reshape(-1), values.reshape(-1)
    scratch = np.empty(1, np.float32)
    for i in range(rows.size):
        if i + AHEAD < rows.size:
            _ask(table, np.int64(rows[i + AHEAD]), dim)
        if half:
            _narrow(halves, rows[i], values, i, scratch)
        else:
            copy(target, np.int64(rows[i]) * table.shape[1], source, i * dim, dim)


@jit
def _narrow(halves: np.ndarray, row: int, values: np.ndarray, line: int, scratch: np.ndarray) -> None:
    """float32 → float16, rounding to the nearest, ties to even; what is too large becomes infinite."""
    bits, scratch_bits = values.view(np.uint32), scratch.view(np.uint32)
    for c in range(values.shape[1]):
        sign = (bits[line, c] >> np.uint32(16)) & np.uint32(0x8000)
        x = bits[line, c] & np.uint32(0x7FFFFFFF)
        if x > np.uint32(NOT_FINITE):
            half = np.uint32(0x7E00)
        elif x >= np.uint32(0x477FF000):
            half = np.uint32(0x7C00)
        elif x < np.uint32(0x38800000):
            # Below the smallest normal float16: adding 0.5 lets the processor do the rounding at the right bit.
            scratch_bits[0] = x
            scratch[0] += np.float32(0.5)
            half = scratch_bits[0] - np.uint32(0x3F000000)
        else:
            odd = (x >> np.uint32(13)) & np.uint32(1)
            half = (x - np.uint32(0x38000000) + np.uint32(0xFFF) + odd) >> np.uint32(13)
        halves[row, c] = np.uint16(half | sign)


@jit
def reset_state(table: np.ndarray, rows: np.ndarray, lead: int, dim: int, initial: np.ndarray) -> None:
    """Set each slot of state of rows to its initial value; `lead` floats of values come before the slots."""
    for i in range(rows.size):
        for slot in range(initial.size):
            for c in range(dim):
                table[rows[i], lead + slot * dim + c] = initial[slot]


@jit
def add(
    place: np.ndarray,
    touched: np.ndarray,
    total: np.ndarray,
    count: int,
    rows: np.ndarray,
    grads: np.ndarray,
    weight: np.float32,
) -> tuple[int, bool]:
    """Add a trainer's row gradients times its weight to the round's totals; how many those are now, and if all is finite.

    `touched` names the row of each line of `total`, and `place` has the line for each row of the table. What `place` has
    from earlier rounds need not be cleared: it counts only where `touched` agrees.
    """
    dim = grads.shape[1]
    bad = np.int32(0)
    for i in range(rows.size):
        if i + AHEAD < rows.size:
            prefetch(place, np.int64(rows[i + AHEAD]), 0)
        row = rows[i]
        if row < 0:
            continue
        at = place[row, 0]
        if at < count and touched[at] == row:
            for c in range(dim):
                x = grads[i, c] * weight
                bad |= np.int32(x - x != 0)
                total[at, c] += x
        else:
            place[row, 0] = count
            touched[count] = row
            for c in range(dim):
                x = grads[i, c] * weight
                bad |= np.int32(x - x != 0)
                total[count, c] = x
            count += 1
    return count, bad == 0
