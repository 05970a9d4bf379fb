"""The update rules of PaddlePaddle v1, as settings. The arithmetic is formulas.py and kernels.py.

They differ from the rules of umiak/spec/optim.py in more than defaults: the gradient they see is a sum, `l2` acts in the
step and not in the accumulators, and what the original left out silently (schedules and L2 in Adam, for one) is left out here
too. A config is never written with these; selection.py makes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from umiak.errors import InputError
from umiak.spec.optim import Optimizer, Schedule


@dataclass(frozen=True)
class V1(Optimizer):
    """What all rules share: m = μm - lr·rate·(g + l2·w), w += m, where `rate` is what a rule is about."""

    momentum: float = field(default=0.0, kw_only=True)

    COUNTS_ITSELF = False
    SCHEDULED = True
    """Whether the rule looks at the schedule."""
    SPARSE = True
    """Whether the original could update rows of a table with it."""
    STEP_DECAYS = True
    """Whether l2 is part of the step."""

    def _check(self) -> None:
        if self.l1 and self.momentum:
            raise InputError("a parameter cannot have both L1 regularisation and a momentum in PaddlePaddle v1")

    @property
    def effective(self) -> Schedule:
        return self.schedule if self.SCHEDULED else Schedule()


@dataclass(frozen=True)
class V1Momentum(V1):
    pass


@dataclass(frozen=True)
class V1AdaGrad(V1):
    eps: float = field(default=1e-6, kw_only=True)

    SCHEDULED = False


@dataclass(frozen=True)
class V1AdaDelta(V1):
    rho: float = field(default=0.95, kw_only=True)
    eps: float = field(default=1e-6, kw_only=True)

    SPARSE = False


@dataclass(frozen=True)
class V1RMSProp(V1):
    rho: float = field(default=0.95, kw_only=True)
    eps: float = field(default=1e-6, kw_only=True)


@dataclass(frozen=True)
class V1DecayedAdaGrad(V1):
    rho: float = field(default=0.95, kw_only=True)
    eps: float = field(default=1e-6, kw_only=True)


@dataclass(frozen=True)
class V1Adam(V1):
    beta1: float = field(default=0.9, kw_only=True)
    beta2: float = field(default=0.999, kw_only=True)
    eps: float = field(default=1e-8, kw_only=True)

    SCHEDULED = SPARSE = STEP_DECAYS = False


@dataclass(frozen=True)
class V1Adamax(V1):
    beta1: float = field(default=0.9, kw_only=True)
    beta2: float = field(default=0.999, kw_only=True)

    SCHEDULED = SPARSE = STEP_DECAYS = False


KINDS: dict[str, type[V1]] = {
    kind.__name__: kind for kind in (V1Momentum, V1AdaGrad, V1AdaDelta, V1RMSProp, V1DecayedAdaGrad, V1Adam, V1Adamax)
}
