"""From the settings of a v1 rule to what kernels.py needs: which formula, how much state, which numbers now."""

from __future__ import annotations

import math

import numpy as np

from umiak.paddle_v1.rules import kernels
from umiak.paddle_v1.rules.settings import (
    V1,
    V1AdaDelta,
    V1AdaGrad,
    V1Adam,
    V1Adamax,
    V1DecayedAdaGrad,
    V1Momentum,
    V1RMSProp,
)
from umiak.pserver.optimizers import Clock, Formula
from umiak.spec.optim import Optimizer

# The number of a rule's formula and of its slots of state.
_RULES: dict[type[V1], tuple[int, int]] = {
    V1Momentum: (kernels.MOMENTUM, 0),
    V1AdaGrad: (kernels.ADAGRAD, 1),
    V1AdaDelta: (kernels.ADADELTA, 2),
    V1RMSProp: (kernels.RMSPROP, 2),
    V1DecayedAdaGrad: (kernels.DECAYED_ADAGRAD, 1),
    V1Adam: (kernels.ADAM, 2),
    V1Adamax: (kernels.ADAMAX, 2),
}


def formula(rule: Optimizer, rows: bool) -> Formula:
    """The slots are the rule's, one of momentum, and for rows one for the number of the last step that touched them."""
    assert isinstance(rule, V1)
    kind, slots = _RULES[type(rule)]
    steps = not isinstance(rule, V1Adam | V1Adamax)
    slots += (steps and rule.momentum > 0) + rows
    regularised = rule.l1 > 0 or rule.l2 > 0
    return Formula(
        kind,
        (0.0,) * slots,
        settings,
        kernels.step_dense,
        kernels.step_rows,
        kernels.catch_up if rows and regularised else None,
    )


def settings(rule: Optimizer, total: float, clock: Clock, rows: bool) -> np.ndarray | None:
    """The numbers of one update; None where it would change nothing. `total` is not used: v1 takes the sum as it is."""
    assert isinstance(rule, V1)
    if rule.lr == 0:
        return None
    h = np.zeros(kernels.SETTINGS, np.float64)
    h[kernels.CLIP] = math.inf if rule.clip is None else rule.clip
    h[kernels.LR] = rule.lr * rule.effective.factor(clock.samples, clock.pass_id)
    h[kernels.MU] = rule.momentum
    h[kernels.L1] = rule.l1
    # As in the original: where L1 or rows call for a regulariser of its own, L2 moves there from the step.
    after = rows or rule.l1 > 0
    h[kernels.L2_AFTER if after else kernels.L2] = rule.l2 if after or rule.STEP_DECAYS else 0.0
    h[kernels.FIRST] = clock.step == 1
    h[kernels.EPS] = getattr(rule, "eps", 0.0)
    h[kernels.RHO] = getattr(rule, "rho", 0.0)
    h[kernels.STEP] = clock.step
    h[kernels.BEGUN] = clock.begun
    if isinstance(rule, V1Adam):
        h[kernels.CORRECTION] = math.sqrt(1 - rule.beta2**clock.step) / (1 - rule.beta1**clock.step)
    elif isinstance(rule, V1Adamax):
        h[kernels.CORRECTION] = 1 / (1 - rule.beta1**clock.step)
    if isinstance(rule, V1Adam | V1Adamax):
        h[kernels.BETA1], h[kernels.BETA2] = rule.beta1, rule.beta2
    return h.astype(np.float32)
