"""Exponential, logistic and hyperbolic tangent for compiled loops, written so that the compiler can take many at once.

numba calls the C library for each single number, which is slow. float32 has a polynomial here, within 2.5e-7 of the true value
as the tests prove; float64 is for tests and uses the library. Logistic and tangent are both made of the exponential, as in 2016.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload

_LOW, _HIGH = np.float32(-87), np.float32(88)
_LOG2_E = np.float32(1.44269504088896341)
# ln 2 in two parts, the first of them exact in few bits, so that their products with a whole number lose nothing.
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_P0, _P1, _P2 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
_P3, _P4, _P5 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)
ZERO, ONE, _HALF, _TWO = np.float32(0), np.float32(1), np.float32(0.5), np.float32(2)


@intrinsic  # type: ignore[misc, unused-ignore]
def _as_float(_context: Any, bits: Any) -> Any:
    """The float whose 32 bits these are."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), generate


def exponential(x: Any) -> Any:
    return math.exp(x)


@overload(exponential)
def _exponential(x: Any) -> Any:
    return _single if x == types.float32 else _double


def _double(x: Any) -> Any:
    return math.exp(x)


def _single(x: Any) -> Any:
    # Comparisons this way round let a NaN through.
    x = _LOW if x < _LOW else x
    x = _HIGH if x > _HIGH else x
    whole = np.floor(x * _LOG2_E + _HALF)
    r = x - whole * _LN2_HIGH - whole * _LN2_LOW
    p = ((((_P0 * r + _P1) * r + _P2) * r + _P3) * r + _P4) * r + _P5
    return (p * r * r + r + ONE) * _as_float((np.int32(whole) + np.int32(127)) << np.int32(23))


_jit = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})


@_jit
def logistic(x: Any) -> Any:
    return ONE / (ONE + exponential(-x))


@_jit
def tangent(x: Any) -> Any:
    return _TWO / (ONE + exponential(-(x + x))) - ONE
