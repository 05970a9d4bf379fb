"""The arithmetic of PaddlePaddle v1's update rules, compiled: for dense blocks, and for rows of tables with their catch-up.

Like umiak/pserver/kernels.py: float32 slices, a small vector of settings (filled by formulas.py), the same inputs give
the same bytes. A table's row is its values, the rule's slots of state, and last the number of the step that touched it.
"""

from __future__ import annotations

import numba
import numpy as np

jit = numba.njit(cache=True, nogil=True, error_model="numpy")

MOMENTUM, ADAGRAD, ADADELTA, RMSPROP, DECAYED_ADAGRAD, ADAM, ADAMAX = range(7)

# Places in the vector of settings. L1 and L2_AFTER act after the step; CORRECTION is for the bias of Adam's moments.
CLIP, LR, MU, L2, L1, L2_AFTER, FIRST, EPS, RHO, BETA1, BETA2, CORRECTION, STEP, BEGUN = range(14)
SETTINGS = 14

CHUNK = 2048
"""Elements of a dense block that pass through all stages of a formula while they are in the cache."""


@jit
def _clip(g: np.ndarray, clip: np.float32) -> None:
    for i in range(g.size):
        x = g[i]
        x = clip if x > clip else x
        g[i] = -clip if x < -clip else x


@jit
def _rates(
    kind: int,
    h: np.ndarray,
    keep: np.float32,
    fresh: np.float32,
    g: np.ndarray,
    s0: np.ndarray,
    s1: np.ndarray,
    rate: np.ndarray,
) -> None:
    """What each element's step is multiplied by. `keep` and `fresh` weigh the old mean of squares and the new square."""
    one, zero, eps, rho = np.float32(1), np.float32(0), h[EPS], h[RHO]
    if kind == ADAGRAD:
        for i in range(g.size):
            s0[i] += g[i] * g[i]
            rate[i] = one / np.sqrt(s0[i] + eps)
    elif kind == RMSPROP:
        for i in range(g.size):
            s0[i] = keep * s0[i] + fresh * g[i] * g[i]
            s1[i] = keep * s1[i] + (one - rho) * g[i]
            spread = s0[i] - s1[i] * s1[i]
            # Rounding can leave a tiny negative number where all gradients were alike.
            rate[i] = one / np.sqrt((zero if spread < zero else spread) + eps)
    elif kind == DECAYED_ADAGRAD:
        for i in range(g.size):
            s0[i] = keep * s0[i] + fresh * g[i] * g[i]
            rate[i] = one / np.sqrt(s0[i] + eps)
    elif kind == ADADELTA:
        for i in range(g.size):
            s0[i] = rho * s0[i] + (one - rho) * g[i] * g[i]
            r = np.sqrt((s1[i] + eps) / (s0[i] + eps))
            s1[i] = rho * s1[i] + (one - rho) * (g[i] * r) * (g[i] * r)
            rate[i] = r
    else:
        for i in range(g.size):
            rate[i] = one


@jit
def _move(h: np.ndarray, w: np.ndarray, g: np.ndarray, rate: np.ndarray, mom: np.ndarray) -> None:
    lr, mu, l2 = h[LR], h[MU], h[L2]
    if mom.size > 0:
        for i in range(w.size):
            mom[i] = mu * mom[i] - lr * rate[i] * (g[i] + l2 * w[i])
            w[i] += mom[i]
    else:
        for i in range(w.size):
            w[i] -= lr * rate[i] * (g[i] + l2 * w[i])


@jit
def _adam(h: np.ndarray, w: np.ndarray, g: np.ndarray, m: np.ndarray, v: np.ndarray) -> None:
    one, lr, beta1, beta2, eps = np.float32(1), h[LR] * h[CORRECTION], h[BETA1], h[BETA2], h[EPS]
    for i in range(w.size):
        m[i] = beta1 * m[i] + (one - beta1) * g[i]
        v[i] = beta2 * v[i] + (one - beta2) * g[i] * g[i]
        w[i] -= m[i] * lr / (np.sqrt(v[i]) + eps)


@jit
def _adamax(h: np.ndarray, w: np.ndarray, g: np.ndarray, m: np.ndarray, u: np.ndarray) -> None:
    one, zero, lr, beta1, beta2 = np.float32(1), np.float32(0), h[LR] * h[CORRECTION], h[BETA1], h[BETA2]
    for i in range(w.size):
        m[i] = beta1 * m[i] + (one - beta1) * g[i]
        u[i] = max(beta2 * u[i], abs(g[i]))
        # The original divides 0 by 0 where no gradient has come yet, and dies of it.
        if u[i] > zero:
            w[i] -= lr * (m[i] / u[i])


@jit
def _regularise(h: np.ndarray, w: np.ndarray, rate: np.ndarray, times: np.float32) -> None:
    """What acts after the step, for `times` steps at once: L1 pulls towards zero, L2 divides."""
    one, zero, lr = np.float32(1), np.float32(0), h[LR]
    if h[L1] > zero:
        for i in range(w.size):
            pull = lr * rate[i] * h[L1] * times
            x = w[i]
            w[i] = x - pull if x > pull else (x + pull if x < -pull else x * zero)
    if h[L2_AFTER] > zero:
        for i in range(w.size):
            w[i] *= one / (one + lr * rate[i] * h[L2_AFTER] * times)


@jit
def _update(
    kind: int,
    h: np.ndarray,
    keep: np.float32,
    fresh: np.float32,
    times: np.float32,
    w: np.ndarray,
    g: np.ndarray,
    s0: np.ndarray,
    s1: np.ndarray,
    mom: np.ndarray,
    rate: np.ndarray,
) -> None:
    _clip(g, h[CLIP])
    _rates(kind, h, keep, fresh, g, s0, s1, rate)
    if kind == ADAM:
        _adam(h, w, g, s0, s1)
    elif kind == ADAMAX:
        _adamax(h, w, g, s0, s1)
    else:
        _move(h, w, g, rate, mom)
    _regularise(h, w, rate, times)


@jit
def step_dense(
    kind: int, h: np.ndarray, w: np.ndarray, g: np.ndarray, s0: np.ndarray, s1: np.ndarray, s2: np.ndarray
) -> None:
    """One step of a whole block. The slots are the rule's own, then that of momentum; those it does not have are empty."""
    fresh = np.float32(1) if h[FIRST] > 0 else np.float32(1) - h[RHO]
    rate = np.empty(CHUNK, np.float32)
    own = 2 if kind in (ADADELTA, RMSPROP, ADAM, ADAMAX) else (0 if kind == MOMENTUM else 1)
    first = s0 if own > 0 else s0[:0]
    second = s1 if own > 1 else s1[:0]
    mom = s2 if own == 2 else (s1 if own == 1 else s0)
    for a in range(0, w.size, CHUNK):
        b = min(a + CHUNK, w.size)
        _update(kind, h, h[RHO], fresh, np.float32(1), w[a:b], g[a:b], first[a:b], second[a:b], mom[a:b], rate[: b - a])


@jit
def step_rows(
    kind: int, h: np.ndarray, table: np.ndarray, wide: np.ndarray, dim: int, rows: np.ndarray, g: np.ndarray
) -> None:
    """One step of each of these rows, and the regularisation of the steps that did not touch it. `wide` is not used."""
    width = table.shape[1]
    own = 2 if kind == RMSPROP else (0 if kind == MOMENTUM else 1)
    has_momentum = width > (own + 2) * dim
    rate = np.empty(dim, np.float32)
    none = np.empty(0, np.float32)
    one = np.float32(1)
    for i in range(rows.size):
        row = table[rows[i]]
        last = row[width - 1]
        missed = h[STEP] - last
        times = h[STEP] - max(last, h[BEGUN])
        keep = h[RHO] ** missed
        fresh = one if last == 0 else one - h[RHO]
        s0 = row[dim : 2 * dim] if own > 0 else none
        s1 = row[2 * dim : 3 * dim] if own > 1 else none
        mom = row[(own + 1) * dim : (own + 2) * dim] if has_momentum else none
        _update(kind, h, keep, fresh, times, row[:dim], g[i], s0, s1, mom, rate)
        row[width - dim :] = h[STEP]


@jit
def catch_up(kind: int, h: np.ndarray, table: np.ndarray, dim: int, rows: np.ndarray) -> None:
    """Regularise rows for the steps of this pass since they were last touched."""
    width = table.shape[1]
    rate = np.empty(dim, np.float32)
    one, zero = np.float32(1), np.float32(0)
    for i in range(rows.size):
        row = table[rows[i]]
        last = row[width - 1]
        times = h[STEP] - max(last, h[BEGUN])
        # Rules with a rate of their own have none for a row that was never touched.
        if times <= 0 or (last == 0 and kind != MOMENTUM):
            continue
        for c in range(dim):
            if kind == MOMENTUM:
                rate[c] = one
            elif kind == RMSPROP:
                spread = row[dim + c] - row[2 * dim + c] * row[2 * dim + c]
                rate[c] = one / np.sqrt((zero if spread < zero else spread) + h[EPS])
            else:
                rate[c] = one / np.sqrt(row[dim + c] + h[EPS])
        _regularise(h, row[:dim], rate, times)
