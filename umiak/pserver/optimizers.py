"""From the settings a user wrote to what the compiled formulas need: which formula, how much state, which numbers now."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from umiak.pserver import kernels, registry
from umiak.spec.optim import FTRL, SGD, AdaDelta, AdaGrad, Adam, AdamW, Optimizer, RMSProp


class Clock(NamedTuple):
    """When an update happens: its number (the first is 1), the samples of all trainers with this round's, the pass.

    `begun` is the number of the last update before this pass.
    """

    step: int
    samples: int
    pass_id: int
    begun: int = 0


Settings = Callable[[Optimizer, float, Clock, bool], np.ndarray | None]
"""The numbers of one update. Arguments: the optimizer, what the gradient sum is divided by, when, whether for rows."""


@dataclass(frozen=True)
class Formula:
    """An optimizer as the kernels see it: `initial` has one number per slot of state, its value before any update."""

    kind: int
    initial: tuple[float, ...]
    settings: Settings
    step_dense: Callable[..., None] = kernels.step_dense
    step_rows: Callable[..., None] = kernels.step_rows
    catch_up: Callable[..., None] | None = None
    """Of rules that change rows no gradient touches: does so at the end of a pass. All rows then exist from the start."""


def formula(optimizer: Optimizer, rows: bool = False) -> Formula:
    """That of an optimizer of ours, or else what the family that it is of says (registry.py)."""
    if (family := registry.family_of(optimizer)) is not None:
        return family.formula(optimizer, rows)
    kind, initial = _shape(optimizer)
    return Formula(kind, initial, settings)


def _shape(optimizer: Optimizer) -> tuple[int, tuple[float, ...]]:
    match optimizer:
        case SGD():
            return (kernels.MOMENTUM, (0.0,)) if optimizer.momentum else (kernels.SGD, ())
        case AdaGrad():
            return kernels.ADAGRAD, (optimizer.initial_accumulator_value,)
        case RMSProp(momentum=0.0):
            return (kernels.RMSPROP_CENTERED, (0.0, 0.0)) if optimizer.centered else (kernels.RMSPROP, (0.0,))
        case RMSProp(centered=False):
            return kernels.RMSPROP_MOMENTUM, (0.0, 0.0)
        case RMSProp():
            return kernels.RMSPROP_CENTERED_MOMENTUM, (0.0, 0.0, 0.0)
        case Adam():
            return kernels.ADAM, (0.0, 0.0)
        case AdaDelta():
            return kernels.ADADELTA, (0.0, 0.0)
        case FTRL():
            return kernels.FTRL, (0.0, 0.0)
        case _:
            raise TypeError(f"no formula for {type(optimizer).__name__}")


def settings(optimizer: Optimizer, total: float, clock: Clock, rows: bool) -> np.ndarray | None:
    """The numbers of one update: the gradient sum is divided by `total`. None where the update would change nothing.

    Rows of a table differ from dense values in two places, as in torch: Adam's eps (SparseAdam adds it before the bias
    correction), and the momentum of a row, which starts from zero instead of from its first gradient.
    """
    lr = optimizer.lr * optimizer.schedule.factor(clock.samples, clock.pass_id)
    if optimizer.lr == 0 or (lr == 0 and isinstance(optimizer, FTRL)):
        return None
    h = [0.0] * kernels.SETTINGS
    h[kernels.SCALE] = 1 / total
    h[kernels.CLIP] = math.inf if optimizer.clip is None else optimizer.clip
    h[kernels.L2] = optimizer.l2
    h[kernels.DECAY] = 1.0
    h[kernels.LR] = lr
    h[kernels.SHRINK] = lr * optimizer.l1
    own: tuple[float, ...] = ()
    match optimizer:
        case SGD():
            fresh = 1.0 if clock.step == 1 and not rows else 1 - optimizer.dampening
            own = (optimizer.momentum, fresh, *((1.0, optimizer.momentum) if optimizer.nesterov else (0.0, 1.0)))
        case AdaGrad():
            own = (optimizer.eps,)
        case RMSProp():
            own = (optimizer.alpha, 1 - optimizer.alpha, optimizer.eps, optimizer.momentum)
        case Adam():
            root = math.sqrt(1 - optimizer.beta2**clock.step)
            h[kernels.LR] = lr / (1 - optimizer.beta1**clock.step)
            eps = optimizer.eps / root if rows else optimizer.eps
            own = (1 - optimizer.beta1, optimizer.beta2, 1 - optimizer.beta2, 1 / root, eps)
            if isinstance(optimizer, AdamW):
                h[kernels.L2] = 0.0
                h[kernels.DECAY] = 1 - lr * optimizer.l2
        case AdaDelta():
            own = (optimizer.rho, 1 - optimizer.rho, optimizer.eps)
        case FTRL():
            h[kernels.L2] = 0.0
            own = (lr, optimizer.beta, optimizer.l1, optimizer.l2)
    h[kernels.A : kernels.A + len(own)] = own
    return np.array(h, np.float32)
