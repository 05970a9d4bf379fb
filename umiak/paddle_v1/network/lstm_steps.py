"""One time step of an LSTM with peepholes for many sequences, forward and backward: compiled loops around a matrix product.

A line of gates is candidate, input, forget, output; `bias` has four parts for these and three for the peepholes of input,
forget and output. Sequence k stands at line lines[k] and was at earlier[k] before; at its first step that is an extra
line of zeros. Each loop touches few arrays: with more of them the compiler cannot prove them apart, and computes one number
at a time.
"""

from __future__ import annotations

import numba
import numpy as np

from umiak.paddle_v1.network.exponent import ONE, ZERO, logistic, tangent

ACTIVATIONS = ("linear", "tanh", "sigmoid", "relu")
LINEAR, TANH, SIGMOID, RELU = range(4)

_jit = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})


@_jit
def _activate(kind: int, array: np.ndarray, line: int, part: int, n: int) -> None:
    if kind == TANH:
        for j in range(n):
            array[line, part * n + j] = tangent(array[line, part * n + j])
    elif kind == SIGMOID:
        for j in range(n):
            array[line, part * n + j] = logistic(array[line, part * n + j])
    elif kind == RELU:
        for j in range(n):
            y = array[line, part * n + j]
            array[line, part * n + j] = ZERO if y < ZERO else y


@_jit
def _slope(kind: int, out: np.ndarray, line: int, grad: np.ndarray, k: int, part: int, n: int) -> None:
    """Multiply a gradient with the slope of an activation, known from its result."""
    if kind == TANH:
        for j in range(n):
            y = out[line, part * n + j]
            grad[k, part * n + j] *= ONE - y * y
    elif kind == SIGMOID:
        for j in range(n):
            y = out[line, part * n + j]
            grad[k, part * n + j] *= y * (ONE - y)
    elif kind == RELU:
        for j in range(n):
            grad[k, part * n + j] = grad[k, part * n + j] if out[line, part * n + j] > ZERO else ZERO


@_jit
def forward(
    lines: np.ndarray,
    earlier: np.ndarray,
    kinds: tuple[int, int, int],
    x: np.ndarray,
    product: np.ndarray,
    bias: np.ndarray,
    gates: np.ndarray,
    cells: np.ndarray,
    states: np.ndarray,
    out: np.ndarray,
    hidden: np.ndarray,
) -> None:
    """`product` is the hidden values of before times the weight; `states` are the cells' activation; `hidden` is for the next."""
    n = out.shape[1]
    candidate, gate, state = kinds
    for k in range(lines.size):
        line, was = lines[k], earlier[k]
        for j in range(4 * n):
            gates[line, j] = x[line, j] + product[k, j] + bias[j]
        for j in range(n):
            gates[line, n + j] += cells[was, j] * bias[4 * n + j]
        for j in range(n):
            gates[line, 2 * n + j] += cells[was, j] * bias[5 * n + j]
        _activate(candidate, gates, line, 0, n)
        _activate(gate, gates, line, 1, n)
        _activate(gate, gates, line, 2, n)
        for j in range(n):
            cells[line, j] = gates[line, j] * gates[line, n + j]
        for j in range(n):
            cells[line, j] += gates[line, 2 * n + j] * cells[was, j]
        for j in range(n):
            gates[line, 3 * n + j] += cells[line, j] * bias[6 * n + j]
        _activate(gate, gates, line, 3, n)
        for j in range(n):
            states[line, j] = cells[line, j]
        _activate(state, states, line, 0, n)
        for j in range(n):
            out[line, j] = gates[line, 3 * n + j] * states[line, j]
        for j in range(n):
            hidden[k, j] = out[line, j]


@_jit
def backward(
    lines: np.ndarray,
    earlier: np.ndarray,
    kinds: tuple[int, int, int],
    grad: np.ndarray,
    bias: np.ndarray,
    gates: np.ndarray,
    cells: np.ndarray,
    states: np.ndarray,
    grad_hidden: np.ndarray,
    grad_cells: np.ndarray,
    grad_gates: np.ndarray,
    grad_x: np.ndarray,
    grad_bias: np.ndarray,
) -> None:
    """`grad_hidden` and `grad_cells` come from the step after; `grad_gates` is for the product with the weight."""
    n = grad.shape[1]
    candidate, gate, state = kinds
    for k in range(lines.size):
        line, was = lines[k], earlier[k]
        for j in range(n):
            grad_hidden[k, j] += grad[line, j]
        # The output gate, and through it and the state's activation the cell.
        for j in range(n):
            grad_gates[k, 3 * n + j] = grad_hidden[k, j] * states[line, j]
        _slope(gate, gates, line, grad_gates, k, 3, n)
        for j in range(n):
            grad_hidden[k, j] *= gates[line, 3 * n + j]
        _slope(state, states, line, grad_hidden, k, 0, n)
        for j in range(n):
            grad_cells[k, j] += grad_hidden[k, j]
        for j in range(n):
            grad_cells[k, j] += grad_gates[k, 3 * n + j] * bias[6 * n + j]
        # The other gates from the cell.
        for j in range(n):
            grad_gates[k, j] = grad_cells[k, j] * gates[line, n + j]
        for j in range(n):
            grad_gates[k, n + j] = grad_cells[k, j] * gates[line, j]
        for j in range(n):
            grad_gates[k, 2 * n + j] = grad_cells[k, j] * cells[was, j]
        _slope(candidate, gates, line, grad_gates, k, 0, n)
        _slope(gate, gates, line, grad_gates, k, 1, n)
        _slope(gate, gates, line, grad_gates, k, 2, n)
        # The cell of before, through the forget gate and two peepholes.
        for j in range(n):
            grad_cells[k, j] *= gates[line, 2 * n + j]
        for j in range(n):
            grad_cells[k, j] += grad_gates[k, n + j] * bias[4 * n + j]
        for j in range(n):
            grad_cells[k, j] += grad_gates[k, 2 * n + j] * bias[5 * n + j]
        for j in range(4 * n):
            grad_x[line, j] = grad_gates[k, j]
        for j in range(4 * n):
            grad_bias[j] += grad_gates[k, j]
        for j in range(n):
            grad_bias[4 * n + j] += grad_gates[k, n + j] * cells[was, j]
        for j in range(n):
            grad_bias[5 * n + j] += grad_gates[k, 2 * n + j] * cells[was, j]
        for j in range(n):
            grad_bias[6 * n + j] += grad_gates[k, 3 * n + j] * cells[line, j]
