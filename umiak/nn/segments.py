"""Compiled loops over lines end to end: windows around each line, and one line from each run of lines. Knows no layers."""

from __future__ import annotations

import numba
import numpy as np

jit = numba.njit(cache=True, nogil=True, error_model="numpy")


@jit
def windows(rows: np.ndarray, offsets: np.ndarray, start: int, length: int, out: np.ndarray) -> None:
    """out[i] is rows[i + start] … rows[i + start + length - 1] side by side, zeros beyond the ends of i's sequence."""
    dim = rows.shape[1]
    for s in range(offsets.size - 1):
        for i in range(offsets[s], offsets[s + 1]):
            for k in range(length):
                source = i + start + k
                if offsets[s] <= source < offsets[s + 1]:
                    for c in range(dim):
                        out[i, k * dim + c] = rows[source, c]
                else:
                    for c in range(dim):
                        out[i, k * dim + c] = 0


@jit
def add_windows(grad: np.ndarray, offsets: np.ndarray, start: int, length: int, out: np.ndarray) -> None:
    """The gradient of `windows`, written over `out`."""
    dim = out.shape[1]
    for s in range(offsets.size - 1):
        for i in range(offsets[s], offsets[s + 1]):
            for c in range(dim):
                out[i, c] = 0
            for k in range(length):
                window = i - start - k
                if offsets[s] <= window < offsets[s + 1]:
                    for c in range(dim):
                        out[i, c] += grad[window, k * dim + c]


@jit
def largest(rows: np.ndarray, offsets: np.ndarray, out: np.ndarray, where: np.ndarray) -> None:
    """The maximum of each column over each run, and the first line that has it; zeros and -1 where a run is empty."""
    for s in range(offsets.size - 1):
        first = offsets[s]
        if first == offsets[s + 1]:
            for c in range(rows.shape[1]):
                out[s, c] = 0
                where[s, c] = -1
            continue
        for c in range(rows.shape[1]):
            out[s, c] = rows[first, c]
            where[s, c] = first
        for i in range(first + 1, offsets[s + 1]):
            line = np.int32(i)
            for c in range(rows.shape[1]):
                value, best = rows[i, c], out[s, c]
                where[s, c] = line if value > best else where[s, c]
                out[s, c] = value if value > best else best


@jit
def to_largest(grad: np.ndarray, where: np.ndarray, out: np.ndarray) -> None:
    """The gradient of `largest`, into zeros."""
    for s in range(grad.shape[0]):
        for c in range(grad.shape[1]):
            if where[s, c] >= 0:
                out[where[s, c], c] = grad[s, c]


@jit
def sums(rows: np.ndarray, offsets: np.ndarray, mean: bool, out: np.ndarray) -> None:
    """The sum or mean over each run, zeros where it is empty."""
    for s in range(offsets.size - 1):
        for c in range(rows.shape[1]):
            out[s, c] = 0
        for i in range(offsets[s], offsets[s + 1]):
            for c in range(rows.shape[1]):
                out[s, c] += rows[i, c]
        if mean and offsets[s + 1] > offsets[s]:
            count = out.dtype.type(offsets[s + 1] - offsets[s])
            for c in range(rows.shape[1]):
                out[s, c] /= count


@jit
def spread(grad: np.ndarray, offsets: np.ndarray, mean: bool, out: np.ndarray) -> None:
    """The gradient of `sums`, written over `out`."""
    for s in range(offsets.size - 1):
        count = out.dtype.type(offsets[s + 1] - offsets[s] if mean else 1)
        for i in range(offsets[s], offsets[s + 1]):
            for c in range(grad.shape[1]):
                out[i, c] = grad[s, c] / count


@jit
def gather_weighted(
    rows: np.ndarray, index: np.ndarray, offsets: np.ndarray, weights: np.ndarray, out: np.ndarray
) -> None:
    """The sum of weights[j] · rows[index[j]] over each run, into zeros."""
    for s in range(offsets.size - 1):
        for j in range(offsets[s], offsets[s + 1]):
            row, weight = index[j], weights[j]
            for c in range(rows.shape[1]):
                out[s, c] += weight * rows[row, c]


@jit
def scatter_weighted(
    index: np.ndarray, offsets: np.ndarray, weights: np.ndarray, grad: np.ndarray, out: np.ndarray
) -> None:
    """The gradient of `gather_weighted`, added to `out`."""
    for s in range(offsets.size - 1):
        for j in range(offsets[s], offsets[s + 1]):
            row, weight = index[j], weights[j]
            for c in range(out.shape[1]):
                out[row, c] += weight * grad[s, c]


@jit
def before(rows: np.ndarray, offsets: np.ndarray, step: int, out: np.ndarray) -> None:
    """out[i] is the line before i in its sequence (after it, if `step` is -1); zeros at the beginning."""
    for s in range(offsets.size - 1):
        for i in range(offsets[s], offsets[s + 1]):
            source = i - step
            if offsets[s] <= source < offsets[s + 1]:
                for c in range(rows.shape[1]):
                    out[i, c] = rows[source, c]
            else:
                for c in range(rows.shape[1]):
                    out[i, c] = 0
