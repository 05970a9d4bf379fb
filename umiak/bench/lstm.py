"""The LSTM with peepholes of v1 against careful hand-written ones: forward and backward of one layer, in one thread.

All of them take sequences by length, longest first, and waste nothing on padding. The hand-written ones lay their input out
step by step first, as torch's PackedSequence does, because torch has no other way to take lines from many places.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from umiak.bench.run import Run
from umiak.paddle_v1.network.lstm import Plan, lstm

SIZE, SEQUENCES, SHORTEST, LONGEST, BATCHES = 128, 128, 20, 140, 8

Layer = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def v1(run: Run) -> dict[str, Any]:
    """Ours."""
    return _measure(run, lstm)


def limit(run: Run) -> dict[str, Any]:
    """An autograd function of its own around gates that torch.compile has fused."""
    return _measure(run, fused(partial(torch.compile, dynamic=True)))


def script(run: Run) -> dict[str, Any]:
    """TorchScript, differentiated by autograd."""
    return _measure(run, _packed(torch.jit.script(_steps)))


def eager(run: Run) -> dict[str, Any]:
    return _measure(run, _packed(_steps))


def _measure(run: Run, layer: Layer) -> dict[str, Any]:
    torch.set_num_threads(1)
    generator = np.random.default_rng(0)
    weight = (torch.randn(SIZE, 4 * SIZE) / SIZE**0.5).requires_grad_()
    bias = torch.zeros(7 * SIZE, requires_grad=True)
    weight.grad, bias.grad = torch.zeros_like(weight), torch.zeros_like(bias)
    batches = []
    for _ in range(BATCHES):
        offsets = np.r_[0, np.cumsum(generator.integers(SHORTEST, LONGEST, SEQUENCES))]
        x = torch.randn(int(offsets[-1]), 4 * SIZE).requires_grad_()
        batches.append((x, torch.from_numpy(offsets), torch.randn(len(x), SIZE)))

    def once(number: int) -> None:
        x, offsets, grad = batches[number % BATCHES]
        x.grad = None
        layer(x, offsets, weight, bias).backward(grad)

    for number in range(BATCHES):
        once(number)
    # One thread that waits for nobody: its CPU time is its time on a machine of its own, whatever others do here.
    done, began = 0, time.process_time()
    while (spent := time.process_time() - began) < run.seconds:
        once(done)
        done += 1
    return {"samples_per_s": done * SEQUENCES / spent, "unit": "sequences/s"}


def _order(offsets: Tensor) -> tuple[Tensor, list[int]]:
    """The lines step by step, and how many each step has."""
    plan = Plan(offsets.numpy(), 1)
    return torch.from_numpy(np.concatenate([plan.at(t)[0] for t in range(len(plan.running))])), plan.running


def _packed(steps: Callable[[Tensor, list[int], Tensor, Tensor], Tensor]) -> Layer:
    def layer(x: Tensor, offsets: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        order, running = _order(offsets)
        out = steps(x.index_select(0, order), running, weight, bias)
        return torch.empty_like(out).index_copy(0, order, out)

    return layer


def _steps(x: Tensor, running: list[int], weight: Tensor, bias: Tensor) -> Tensor:
    n = weight.size(0)
    # Not a slice per step: the gradient of each would be a tensor as large as x.
    parts = torch.split_with_sizes(x + bias[: 4 * n], running)
    of_input, of_forget, of_output = bias[4 * n : 5 * n], bias[5 * n : 6 * n], bias[6 * n :]
    h, c = torch.zeros(running[0], n), torch.zeros(running[0], n)
    outs: list[Tensor] = []
    for part in parts:
        h, c = h[: part.size(0)], c[: part.size(0)]
        z = torch.addmm(part, h, weight)
        candidate, i, f, o = z.chunk(4, 1)
        i = torch.sigmoid(torch.addcmul(i, c, of_input))
        f = torch.sigmoid(torch.addcmul(f, c, of_forget))
        c = i * torch.tanh(candidate) + f * c
        h = torch.sigmoid(torch.addcmul(o, c, of_output)) * torch.tanh(c)
        outs.append(h)
    return torch.cat(outs)


def _gates(z: Tensor, c: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    n = c.shape[1]
    zc, zi, zf, zo = (z + bias[: 4 * n]).chunk(4, 1)
    i, f = torch.sigmoid(zi + c * bias[4 * n : 5 * n]), torch.sigmoid(zf + c * bias[5 * n : 6 * n])
    a = torch.tanh(zc)
    new = i * a + f * c
    o = torch.sigmoid(zo + new * bias[6 * n :])
    state = torch.tanh(new)
    return torch.cat([a, i, f, o], 1), new, state, o * state


def _gates_back(
    grad: Tensor, grad_c: Tensor, gates: Tensor, c: Tensor, new: Tensor, state: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    n = c.shape[1]
    a, i, f, o = gates.chunk(4, 1)
    zo = grad * state * o * (1 - o)
    grad_new = grad_c + grad * o * (1 - state * state) + zo * bias[6 * n :]
    zi, zf = grad_new * a * i * (1 - i), grad_new * c * f * (1 - f)
    zc = grad_new * i * (1 - a * a)
    return torch.cat([zc, zi, zf, zo], 1), grad_new * f + zi * bias[4 * n : 5 * n] + zf * bias[5 * n : 6 * n]


def fused(compiled: Callable[..., Any]) -> Layer:
    forward_gates, backward_gates = compiled(_gates), compiled(_gates_back)

    class Fused(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, offsets: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            order, running = _order(offsets)
            n, at = weight.shape[0], 0
            packed = x.index_select(0, order)
            h, c = x.new_zeros(running[0], n), x.new_zeros(running[0], n)
            kept, outs = [], []
            for count in running:
                h, c = h[:count], c[:count]
                gates, new, state, out = forward_gates(torch.addmm(packed[at : at + count], h, weight), c, bias)
                kept.append((h, c, gates, new, state))
                outs.append(out)
                h, c = out, new
                at += count
            ctx.kept, ctx.order, ctx.running = kept, order, running
            ctx.save_for_backward(weight, bias)
            return torch.empty(at, n).index_copy_(0, order, torch.cat(outs))

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
            weight, bias = ctx.saved_tensors
            n, end = weight.shape[0], len(grad)
            packed, back = grad.index_select(0, ctx.order), weight.t()
            grad_h, grad_c = grad.new_zeros(ctx.running[0], n), grad.new_zeros(ctx.running[0], n)
            parts = []
            for count, (_, c, gates, new, state) in zip(reversed(ctx.running), reversed(ctx.kept), strict=True):
                total = grad_h[:count] + packed[end - count : end]
                z, grad_c[:count] = backward_gates(total, grad_c[:count], gates, c, new, state, bias)
                torch.mm(z, back, out=grad_h[:count])
                parts.append(z)
                end -= count
            slopes = torch.cat(parts[::-1])
            hidden, before, after = (torch.cat([step[place] for step in ctx.kept]) for place in (0, 1, 3))
            _, zi, zf, zo = slopes.chunk(4, 1)
            peepholes = ((zi * before).sum(0), (zf * before).sum(0), (zo * after).sum(0))
            grad_x = torch.empty_like(slopes).index_copy_(0, ctx.order, slopes)
            return grad_x, None, hidden.t() @ slopes, torch.cat([slopes.sum(0), *peepholes])

    return Fused.apply
