"""The LSTM of 2016: gates with peepholes, over sequences of any length without padding.

Sequences are taken by length, the longest first, so that those still running at a time step are always the first ones: each
step is one matrix product of just these, and one compiled loop (lstm_steps.py). Lines stay where they are; nothing is
packed or copied.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from umiak.nn import segments
from umiak.paddle_v1.network import lstm_steps
from umiak.paddle_v1.network.gradients import add, add_product


def lstm(
    x: Tensor,
    offsets: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    reverse: bool = False,
    activation: str = "tanh",
    gate_activation: str = "sigmoid",
    state_activation: str = "tanh",
) -> Tensor:
    """Hidden values [lines, n] for inputs [lines, 4n]; the weight is [n, 4n], the bias 7n with the peepholes last."""
    kinds = tuple(map(lstm_steps.ACTIVATIONS.index, (activation, gate_activation, state_activation)))
    return _LSTM.apply(x, offsets, weight, bias, -1 if reverse else 1, kinds)


class Plan:
    """Which line each sequence is at, step by step."""

    def __init__(self, offsets: np.ndarray, step: int) -> None:
        lengths = np.diff(offsets)
        order = np.argsort(-lengths, kind="stable")
        self.step = step
        self.begin = offsets[:-1][order] if step > 0 else offsets[1:][order] - 1
        longest = int(lengths.max(initial=0))
        # running[t] sequences are longer than t
        self.running = (len(lengths) - np.searchsorted(np.sort(lengths), np.arange(longest), side="right")).tolist()
        self.nowhere = np.full(len(lengths), offsets[-1])

    def at(self, time: int) -> tuple[np.ndarray, np.ndarray, int]:
        """The lines at a time step, those before them, and how many."""
        running = self.running[time]
        lines = self.begin[:running] + time * self.step
        return lines, lines - self.step if time else self.nowhere[:running], running


class _LSTM(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        offsets: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        step: int,
        kinds: tuple[int, int, int],
    ) -> Tensor:
        n, count = weight.shape[0], len(x)
        plan = Plan(offsets.numpy(), step)
        gates, out = x.new_empty(count, 4 * n), x.new_empty(count, n)
        cells, states = x.new_empty(count + 1, n), x.new_empty(count, n)
        cells[count] = 0
        flat_bias = x.new_zeros(7 * n) if bias is None else bias.detach().reshape(-1)
        most = plan.running[0] if plan.running else 0
        hidden, product = x.new_empty(most, n), x.new_zeros(most, 4 * n)
        arrays = [t.numpy() for t in (x.detach().contiguous(), product, flat_bias, gates, cells, states, out, hidden)]
        for time in range(len(plan.running)):
            lines, earlier, running = plan.at(time)
            if time:
                torch.mm(hidden[:running], weight, out=product[:running])
            lstm_steps.forward(lines, earlier, kinds, *arrays)
        ctx.plan, ctx.kinds = plan, kinds
        ctx.save_for_backward(offsets, weight, bias, flat_bias, gates, cells, states, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        offsets, weight, bias, flat_bias, gates, cells, states, out = ctx.saved_tensors
        plan, kinds = ctx.plan, ctx.kinds
        n, most = weight.shape[0], plan.running[0] if plan.running else 0
        grad_hidden, grad_cells = grad.new_zeros(most, n), grad.new_zeros(most, n)
        grad_gates, grad_x = grad.new_empty(most, 4 * n), grad.new_empty(len(grad), 4 * n)
        grad_bias = grad.new_zeros(7 * n)
        given = (grad.contiguous(), flat_bias, gates, cells, states)
        made = (grad_hidden, grad_cells, grad_gates, grad_x, grad_bias)
        arrays = [t.numpy() for t in (*given, *made)]
        back = weight.detach().t()
        for time in reversed(range(len(plan.running))):
            lines, earlier, running = plan.at(time)
            lstm_steps.backward(lines, earlier, kinds, *arrays)
            if time:
                torch.mm(grad_gates[:running], back, out=grad_hidden[:running])
        needs = ctx.needs_input_grad
        grad_weight = None
        if needs[2]:
            previous = torch.empty_like(out)
            segments.before(out.numpy(), offsets.numpy(), plan.step, previous.numpy())
            grad_weight = add_product(weight, previous.t(), grad_x)
        return (
            grad_x if needs[0] else None,
            None,
            grad_weight,
            add(bias, grad_bias) if bias is not None and needs[3] else None,
            None,
            None,
        )
