"""The arithmetic of the optimizers, compiled: one formula each, for dense blocks and for rows of tables alike.

Works on float32 slices and a small vector of settings (filled by `optimizers.py`); knows nothing of names, schedules or
ids. No fast-math: the same inputs give the same bytes. Kernels that call each other stay in one file, because numba's
cache notices changes of that file only.
"""

from __future__ import annotations

import numba
import numpy as np

from umiak.pserver.intrinsics import AHEAD, LINE, copy, prefetch

jit = numba.njit(cache=True, nogil=True, error_model="numpy")

SGD, MOMENTUM, ADAGRAD, ADAM, ADADELTA, FTRL = range(6)
RMSPROP, RMSPROP_MOMENTUM, RMSPROP_CENTERED, RMSPROP_CENTERED_MOMENTUM = range(6, 10)

# Places in the vector of settings; A to E mean something else in each formula.
SCALE, CLIP, L2, DECAY, LR, SHRINK, A, B, C, D, E = range(11)
SETTINGS = 11

CHUNK = 2048
"""Elements of a dense block that pass through all stages of a formula while they are in the cache."""

ROW_CHUNK = 256
"""Elements of rows that are updated together."""

LONG_ROW = 64
"""Rows of so many elements are updated one by one, where they are."""

FEW_AHEAD = 4
"""How many long rows before its own turn a row is asked for."""


@jit
def _prepare(w: np.ndarray, g: np.ndarray, h: np.ndarray) -> None:
    """Sum of gradients → mean, clipped, with the L2 term."""
    scale, clip, l2 = h[SCALE], h[CLIP], h[L2]
    for i in range(w.size):
        x = g[i] * scale
        x = clip if x > clip else x
        x = -clip if x < -clip else x
        g[i] = x + l2 * w[i]


@jit
def _momentum(g: np.ndarray, buf: np.ndarray, h: np.ndarray) -> None:
    momentum, fresh, own, kept = h[A], h[B], h[C], h[D]
    for i in range(g.size):
        b = momentum * buf[i] + fresh * g[i]
        buf[i] = b
        g[i] = own * g[i] + kept * b


@jit
def _adagrad(g: np.ndarray, total: np.ndarray, h: np.ndarray) -> None:
    eps = h[A]
    for i in range(g.size):
        x = g[i]
        t = total[i] + x * x
        total[i] = t
        g[i] = x / (np.sqrt(t) + eps)


@jit
def _rmsprop(g: np.ndarray, square: np.ndarray, h: np.ndarray) -> None:
    alpha, fresh, eps = h[A], h[B], h[C]
    for i in range(g.size):
        x = g[i]
        v = alpha * square[i] + fresh * x * x
        square[i] = v
        g[i] = x / (np.sqrt(v) + eps)


@jit
def _rmsprop_centered(g: np.ndarray, square: np.ndarray, mean: np.ndarray, h: np.ndarray) -> None:
    alpha, fresh, eps = h[A], h[B], h[C]
    for i in range(g.size):
        x = g[i]
        v = alpha * square[i] + fresh * x * x
        m = mean[i] + fresh * (x - mean[i])
        square[i] = v
        mean[i] = m
        spread = v - m * m
        # Rounding can leave a tiny negative number where all gradients were alike.
        spread = np.float32(0) if spread < 0 else spread
        g[i] = x / (np.sqrt(spread) + eps)


@jit
def _velocity(g: np.ndarray, buf: np.ndarray, momentum: np.float32) -> None:
    for i in range(g.size):
        b = momentum * buf[i] + g[i]
        buf[i] = b
        g[i] = b


@jit
def _adam(g: np.ndarray, first: np.ndarray, second: np.ndarray, h: np.ndarray) -> None:
    fresh1, beta2, fresh2, correction, eps = h[A], h[B], h[C], h[D], h[E]
    for i in range(g.size):
        x = g[i]
        m = first[i] + fresh1 * (x - first[i])
        v = beta2 * second[i] + fresh2 * x * x
        first[i] = m
        second[i] = v
        g[i] = m / (np.sqrt(v) * correction + eps)


@jit
def _adadelta(g: np.ndarray, square: np.ndarray, moved: np.ndarray, h: np.ndarray) -> None:
    rho, fresh, eps = h[A], h[B], h[C]
    for i in range(g.size):
        x = g[i]
        v = rho * square[i] + fresh * x * x
        step = np.sqrt(moved[i] + eps) / np.sqrt(v + eps) * x
        square[i] = v
        moved[i] = rho * moved[i] + fresh * step * step
        g[i] = step


@jit
def _ftrl(w: np.ndarray, g: np.ndarray, z: np.ndarray, n: np.ndarray, h: np.ndarray) -> None:
    alpha, beta, l1, l2 = h[A], h[B], h[C], h[D]
    zero = np.float32(0)
    for i in range(w.size):
        x = g[i]
        before = n[i]
        after = before + x * x
        if after == zero:
            continue
        if before == zero:
            # The first gradient this element sees: z as if the formula had put the value where it is.
            z[i] = -w[i] * (beta / alpha + l2) - (l1 if w[i] > 0 else (-l1 if w[i] < 0 else zero))
        z[i] += x - (np.sqrt(after) - np.sqrt(before)) / alpha * w[i]
        n[i] = after
        if z[i] > l1:
            w[i] = (l1 - z[i]) / ((beta + np.sqrt(after)) / alpha + l2)
        elif z[i] < -l1:
            w[i] = (-l1 - z[i]) / ((beta + np.sqrt(after)) / alpha + l2)
        else:
            w[i] = zero * z[i]


@jit
def _finish(w: np.ndarray, g: np.ndarray, h: np.ndarray) -> None:
    """Take the step g; L1 then pulls towards zero, leaving what is not a number as it is."""
    decay, lr, shrink = h[DECAY], h[LR], h[SHRINK]
    for i in range(w.size):
        w[i] = w[i] * decay - lr * g[i]
    if shrink > 0:
        for i in range(w.size):
            x = w[i]
            w[i] = x - shrink if x > shrink else (x + shrink if x < -shrink else x * np.float32(0))


@jit
def _update(
    kind: int, h: np.ndarray, w: np.ndarray, g: np.ndarray, s0: np.ndarray, s1: np.ndarray, s2: np.ndarray
) -> None:
    """One step of w by the summed gradient g, which is used up; s0 to s2 are the optimizer's state, as far as it has any."""
    _prepare(w, g, h)
    if kind == ADAGRAD:
        _adagrad(g, s0, h)
    elif kind == MOMENTUM:
        _momentum(g, s0, h)
    elif kind == ADAM:
        _adam(g, s0, s1, h)
    elif kind == RMSPROP:
        _rmsprop(g, s0, h)
    elif kind == RMSPROP_MOMENTUM:
        _rmsprop(g, s0, h)
        _velocity(g, s1, h[D])
    elif kind == RMSPROP_CENTERED:
        _rmsprop_centered(g, s0, s1, h)
    elif kind == RMSPROP_CENTERED_MOMENTUM:
        _rmsprop_centered(g, s0, s1, h)
        _velocity(g, s2, h[D])
    elif kind == ADADELTA:
        _adadelta(g, s0, s1, h)
    elif kind == FTRL:
        _ftrl(w, g, s0, s1, h)
        return
    _finish(w, g, h)


@jit
def step_dense(
    kind: int, h: np.ndarray, w: np.ndarray, g: np.ndarray, s0: np.ndarray, s1: np.ndarray, s2: np.ndarray
) -> None:
    """One step of a whole block; the slots of state an optimizer does not have are empty."""
    for a in range(0, w.size, CHUNK):
        b = min(a + CHUNK, w.size)
        _update(kind, h, w[a:b], g[a:b], s0[a:b], s1[a:b], s2[a:b])


@jit
def add_dense(total: np.ndarray, g: np.ndarray, weight: np.float32, first: bool) -> bool:
    """Add a gradient times its weight to the round's total (the first one replaces it); whether all of it is finite."""
    bad = np.int32(0)
    if first:
        for i in range(g.size):
            x = g[i] * weight
            bad |= np.int32(x - x != 0)
            total[i] = x
    else:
        for i in range(g.size):
            x = g[i] * weight
            bad |= np.int32(x - x != 0)
            total[i] += x
    return bad == 0


@jit
def step_rows(
    kind: int, h: np.ndarray, table: np.ndarray, wide: np.ndarray, dim: int, rows: np.ndarray, g: np.ndarray
) -> None:
    """One step of each of these rows by its summed gradient.

    A row is its values and, after them, its slots of state. Half-precision values come as floats in `wide`, one line per
    row; for a table of float32 `wide` is empty and the values are those in the row. Short rows are updated several at a time
    in buffers that stay in the cache: one formula for many of them is far faster than one for each.
    """
    half = wide.size > 0
    width = table.shape[1]
    lead = (dim + 1) // 2 if half else dim
    slots = (width - lead) // dim
    together = max(1, ROW_CHUNK // dim)
    flat = table.reshape(-1)
    grads = g.reshape(-1)
    if dim >= LONG_ROW and not half:
        for i in range(rows.size):
            if i + FEW_AHEAD < rows.size:
                for offset in range(0, 4 * width, LINE):
                    prefetch(table, np.int64(rows[i + FEW_AHEAD]), offset)
            row = flat[np.int64(rows[i]) * width :]
            state = row[dim:width]
            s0, s1, s2 = state[:dim], state[dim : 2 * dim], state[2 * dim :]
            _update(kind, h, row[:dim], grads[i * dim : (i + 1) * dim], s0, s1, s2)
        return
    w = wide.reshape(-1) if half else np.empty(together * dim, np.float32)
    s0 = np.empty(together * dim if slots > 0 else 0, np.float32)
    s1 = np.empty(together * dim if slots > 1 else 0, np.float32)
    s2 = np.empty(together * dim if slots > 2 else 0, np.float32)
    for a in range(0, rows.size, together):
        b = min(a + together, rows.size)
        for i in range(a, b):
            if i + AHEAD < rows.size:
                for offset in range(0, 4 * width, LINE):
                    prefetch(table, np.int64(rows[i + AHEAD]), offset)
            at, start = (i - a) * dim, np.int64(rows[i]) * width
            if not half:
                copy(w, at, flat, start, dim)
            if slots > 0:
                copy(s0, at, flat, start + lead, dim)
            if slots > 1:
                copy(s1, at, flat, start + lead + dim, dim)
            if slots > 2:
                copy(s2, at, flat, start + lead + 2 * dim, dim)
        n, at = (b - a) * dim, a * dim if half else 0
        _update(kind, h, w[at : at + n], grads[a * dim : b * dim], s0[:n], s1[:n], s2[:n])
        for i in range(a, b):
            at, start = (i - a) * dim, np.int64(rows[i]) * width
            if not half:
                copy(flat, start, w, at, dim)
            if slots > 0:
                copy(flat, start + lead, s0, at, dim)
            if slots > 1:
                copy(flat, start + lead + dim, s1, at, dim)
            if slots > 2:
                copy(flat, start + lead + 2 * dim, s2, at, dim)
