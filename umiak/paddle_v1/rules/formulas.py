"""From the settings of a v1 rule to what kernels_v1.py needs: which formula, how much state, which numbers now."""

from __future__ import annotations

import math

import numpy as np

from umiak.pserver import kernels_v1 as kernels
from umiak.spec.optim_v1 import (
    V1,
    V1AdaDelta,
    V1AdaGrad,
    V1Adam,
    V1Adamax,
    V1DecayedAdaGrad,
    V1Momentum,
    V1RMSProp,
)

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


def shape(rule: V1, rows: bool) -> tuple[int, int]:
    """The number of the formula, and how many slots it has: the rule's, one of momentum, for rows that of the last step."""
    kind, slots = _RULES[type(rule)]
    steps = not isinstance(rule, V1Adam | V1Adamax)
    return kind, slots + (steps and rule.momentum > 0) + rows


def settings(rule: V1, step: int, begun: int, samples: int, pass_id: int, rows: bool) -> np.ndarray | None:
    """The numbers of one update; None where it would change nothing."""
    if rule.lr == 0:
        return None
    h = np.zeros(kernels.SETTINGS, np.float64)
    h[kernels.CLIP] = math.inf if rule.clip is None else rule.clip
    h[kernels.LR] = rule.lr * rule.effective.factor(samples, pass_id)
    h[kernels.MU] = rule.momentum
    h[kernels.L1] = rule.l1
    # As in the original: where L1 or rows call for a regulariser of its own, L2 moves there from the step.
    after = rows or rule.l1 > 0
    h[kernels.L2_AFTER if after else kernels.L2] = rule.l2 if after or rule.STEP_DECAYS else 0.0
    h[kernels.FIRST] = step == 1
    h[kernels.EPS] = getattr(rule, "eps", 0.0)
    h[kernels.RHO] = getattr(rule, "rho", 0.0)
    h[kernels.STEP] = step
    h[kernels.BEGUN] = begun
    if isinstance(rule, V1Adam):
        h[kernels.CORRECTION] = math.sqrt(1 - rule.beta2**step) / (1 - rule.beta1**step)
    elif isinstance(rule, V1Adamax):
        h[kernels.CORRECTION] = 1 / (1 - rule.beta1**step)
    if isinstance(rule, V1Adam | V1Adamax):
        h[kernels.BETA1], h[kernels.BETA2] = rule.beta1, rule.beta2
    return h.astype(np.float32)


def regularised(rule: V1) -> bool:
    """Whether untouched rows of a table change too, so that all of them must be there from the start."""
    return rule.l1 > 0 or rule.l2 > 0
