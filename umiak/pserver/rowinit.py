"""The value a row of a table starts with: a pure function of the job's seed, the table's name and the id.

Servers use it when a row is created, trainers and readers for rows that nobody has created. Needs only numba and numpy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numba
import numpy as np

from umiak.errors import InputError

jit = numba.njit(cache=True, nogil=True, error_model="numpy")

CONSTANT, UNIFORM, NORMAL = range(3)
_FIELDS = {
    "constant": (CONSTANT, "value", None),
    "uniform": (UNIFORM, "low", "high"),
    "normal": (NORMAL, "mean", "std"),
}


class RowInit(NamedTuple):
    """How rows start, and the key that stands for seed and table in every draw."""

    kind: int
    a: float
    b: float
    key: np.uint64

    @classmethod
    def of(cls, seed: int, table: str, init: Mapping[str, Any]) -> RowInit:
        """From {"kind": "normal", "mean", "std"}, {"kind": "uniform", "low", "high"} or {"kind": "constant", "value"}."""
        if init.get("kind") not in _FIELDS:
            raise InputError(
                f"table {table!r}: init.kind must be one of {', '.join(_FIELDS)}, not {init.get('kind')!r}"
            )
        kind, first, second = _FIELDS[init["kind"]]
        numbers = [0.0 if name is None else _number(table, name, init.get(name)) for name in (first, second)]
        digest = hashlib.blake2b(f"{seed}:{table}".encode(), digest_size=8).digest()
        return cls(kind, numbers[0], numbers[1], np.uint64(int.from_bytes(digest, "little")))

    def fill(self, ids: np.ndarray, out: np.ndarray) -> None:
        """Write the first value of each id's row into the matching line of `out` (float32)."""
        fill_rows(self.key, self.kind, self.a, self.b, ids, out)


def _number(table: str, name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise InputError(f"table {table!r}: init.{name} must be a number, not {value!r}")
    return float(value)


@jit
def _mix(x: np.uint64) -> np.uint64:
    """splitmix64: every bit of x reaches every bit of the result."""
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@jit
def _normal(p: float) -> float:
    """The p-quantile of the standard normal distribution (Wichura's AS 241, seven digits)."""
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        top = ((5.9109374720e01 * r + 1.5929113202e02) * r + 5.0434271938e01) * r + 3.3871327179e00
        return q * top / (((6.7187563600e01 * r + 7.8757757664e01) * r + 1.7895169469e01) * r + 1.0)
    r = np.sqrt(-np.log(min(p, 1.0 - p)))
    if r <= 5.0:
        r -= 1.6
        top = ((1.7023821103e-01 * r + 1.3067284816e00) * r + 2.7568153900e00) * r + 1.4234372777e00
        value = top / ((1.2021132975e-01 * r + 7.3700164250e-01) * r + 1.0)
    else:
        r -= 5.0
        top = ((1.7337203997e-02 * r + 4.2868294337e-01) * r + 3.0812263860e00) * r + 6.6579051150e00
        value = top / ((1.2258202635e-02 * r + 2.4197894225e-01) * r + 1.0)
    return value if q > 0 else -value


@jit
def fill_rows(key: np.uint64, kind: int, a: float, b: float, ids: np.ndarray, out: np.ndarray) -> None:
    step = np.uint64(0x9E3779B97F4A7C15)
    for i in range(ids.size):
        state = _mix(np.uint64(ids[i]) * step ^ key)
        for c in range(out.shape[1]):
            if kind == CONSTANT:
                out[i, c] = np.float32(a)
                continue
            state += step
            uniform = (np.float64(_mix(state) >> np.uint64(11)) + 0.5) * 2.0**-53
            out[i, c] = np.float32(a + (b - a) * uniform) if kind == UNIFORM else np.float32(a + b * _normal(uniform))
