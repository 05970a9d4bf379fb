"""Optimizers on the servers: the same numbers as torch's, for dense values and for rows of tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch

from umiak.errors import InputError
from umiak.pserver.dense import DenseStore
from umiak.pserver.kernels import LONG_ROW
from umiak.pserver.optimizers import Clock
from umiak.pserver.table import Table
from umiak.spec.optim import (
    FTRL,
    SGD,
    AdaDelta,
    AdaGrad,
    Adam,
    AdamW,
    DiscExp,
    Exp,
    Linear,
    Manual,
    Optimizer,
    ParamOptions,
    PassManual,
    Poly,
    PolyToZero,
    RMSProp,
    Schedule,
    optimizer_from_json,
    options_from_json,
    to_json,
)

Make = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]

SAME_AS_TORCH: list[tuple[Optimizer, Make]] = [
    (SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
    (SGD(0.1, l2=0.05), lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.05)),
    (SGD(0.1, momentum=0.9), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
    (SGD(0.1, momentum=0.9, nesterov=True), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True)),
    (AdaGrad(), torch.optim.Adagrad),
    (AdaGrad(0.5, l2=0.1, eps=1e-3), lambda p: torch.optim.Adagrad(p, 0.5, weight_decay=0.1, eps=1e-3)),
    (AdaGrad(initial_accumulator_value=0.3), lambda p: torch.optim.Adagrad(p, initial_accumulator_value=0.3)),
    (RMSProp(), torch.optim.RMSprop),
    (RMSProp(momentum=0.7), lambda p: torch.optim.RMSprop(p, momentum=0.7)),
    (RMSProp(centered=True), lambda p: torch.optim.RMSprop(p, centered=True)),
    (RMSProp(alpha=0.8, centered=True, momentum=0.7), lambda p: torch.optim.RMSprop(p, 0.01, 0.8, 1e-8, 0, 0.7, True)),
    (AdaDelta(), torch.optim.Adadelta),
    (AdaDelta(0.3, rho=0.7, l2=0.01), lambda p: torch.optim.Adadelta(p, 0.3, rho=0.7, weight_decay=0.01)),
]
DENSE_ONLY: list[tuple[Optimizer, Make]] = [
    (SGD(0.1, momentum=0.9, dampening=0.4), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.4)),
    (Adam(), torch.optim.Adam),
    (Adam(0.1, beta1=0.5, beta2=0.7, l2=0.1), lambda p: torch.optim.Adam(p, 0.1, betas=(0.5, 0.7), weight_decay=0.1)),
    (AdamW(), torch.optim.AdamW),
    (AdamW(0.1, l2=0.3), lambda p: torch.optim.AdamW(p, 0.1, weight_decay=0.3)),
]


def label(case: object) -> str:
    return repr(case).replace("schedule=Schedule(), ", "") if isinstance(case, Optimizer) else ""


def close(ours: np.ndarray, theirs: np.ndarray | torch.Tensor) -> None:
    """Equal to float32 rounding, which a few steps may add up."""
    theirs = theirs.detach().numpy() if isinstance(theirs, torch.Tensor) else theirs
    np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def table(optimizer: Optimizer, dim: int = 5, **more: Any) -> Table:
    return Table("t", dim, 1, {"kind": "normal", "mean": 0.0, "std": 1.0}, optimizer, **more)


def values(store: Table, ids: np.ndarray) -> np.ndarray:
    out = np.empty((ids.size, store.dim), np.float32)
    store.peek(ids, out)
    return out


@pytest.mark.parametrize(("optimizer", "make"), SAME_AS_TORCH + DENSE_ONLY, ids=label)
def test_dense_values_move_as_torch_moves_them(optimizer: Optimizer, make: Make) -> None:
    start = normal(0, 5000)
    store = DenseStore([("a", 0, 3000), ("b", 100, 2100)], optimizer)
    store.values[:] = start
    parameter = torch.nn.Parameter(torch.from_numpy(start.copy()))
    reference = make([parameter])
    for step in range(1, 21):
        first, second = normal(2 * step, 5000), normal(2 * step + 1, 5000)
        store.add(first * 3)
        store.add(second * 5)
        store.step(8, Clock(step, 8 * step, 0))
        parameter.grad = torch.from_numpy((first * 3 + second * 5) / 8)
        reference.step()
    close(store.values, parameter)


@pytest.mark.parametrize("dim", [5, LONG_ROW])
@pytest.mark.parametrize(("optimizer", "make"), SAME_AS_TORCH, ids=label)
def test_touched_rows_move_as_torch_moves_parameters_and_others_stay(
    optimizer: Optimizer, make: Make, dim: int
) -> None:
    ids = np.arange(-5, 5)
    store = table(optimizer, dim)
    rows = store.locate(ids)
    parameters = [torch.nn.Parameter(torch.from_numpy(line.copy())) for line in values(store, ids)]
    reference = make(parameters)
    for step in range(1, 16):
        chosen = np.random.default_rng(step).permutation(9)[:4]
        grads = normal(step, 4, dim)
        store.add(rows[chosen], grads * 2)
        store.step(2, Clock(step, 2 * step, 0))
        reference.zero_grad(set_to_none=True)
        for line, grad in zip(chosen, grads, strict=True):
            parameters[line].grad = torch.from_numpy(grad.copy())
        reference.step()
    close(values(store, ids), torch.stack(list(parameters)))


@pytest.mark.parametrize(
    ("optimizer", "make"),
    [
        (SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
        (AdaGrad(0.1), lambda p: torch.optim.Adagrad(p, 0.1)),
        (Adam(0.1), lambda p: torch.optim.SparseAdam(p, 0.1)),
        (Adam(0.1, beta1=0.5, beta2=0.6, eps=0.1), lambda p: torch.optim.SparseAdam(p, 0.1, (0.5, 0.6), 0.1)),
    ],
    ids=label,
)
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_rows_move_as_torch_moves_them_by_sparse_gradients(optimizer: Optimizer, make: Make) -> None:
    ids = np.arange(20)
    store = table(optimizer)
    rows = store.locate(ids)
    parameter = torch.nn.Parameter(torch.from_numpy(values(store, ids)))
    reference = make([parameter])
    for step in range(1, 16):
        chosen = np.random.default_rng(step).permutation(20)[:6]
        grads = normal(step, 6, 5)
        store.add(rows[chosen], grads)
        store.step(1, Clock(step, step, 0))
        parameter.grad = torch.sparse_coo_tensor(
            torch.from_numpy(chosen)[None], torch.from_numpy(grads), (20, 5), check_invariants=True
        )
        reference.step()
    close(values(store, ids), parameter)


def test_adamw_shrinks_only_the_rows_that_were_touched() -> None:
    ids = np.arange(4)
    store = table(AdamW(0.1, l2=0.5))
    rows = store.locate(ids)
    before = values(store, ids)
    store.add(rows[:2], np.zeros((2, 5), np.float32))
    store.step(1, Clock(1, 1, 0))
    close(values(store, ids), np.concatenate([before[:2] * 0.95, before[2:]]))


def ftrl(w: np.ndarray, grads: list[np.ndarray], alpha: float, beta: float, l1: float, l2: float) -> np.ndarray:
    """McMahan et al., algorithm 1, for values that start at 0."""
    z, n, w = np.zeros(w.shape), np.zeros(w.shape), w.astype(np.float64)
    for g in grads:
        g = g.astype(np.float64)
        sigma = (np.sqrt(n + g * g) - np.sqrt(n)) / alpha
        z += g - sigma * w
        n += g * g
        w = np.where(np.abs(z) <= l1, 0, -(z - np.sign(z) * l1) / ((beta + np.sqrt(n)) / alpha + l2))
    return w


def test_ftrl_is_mcmahans_for_dense_values_and_rows() -> None:
    grads = [normal(seed, 40) for seed in range(12)]
    expected = ftrl(np.zeros(40), grads, 0.2, 1.5, 0.7, 0.3)
    assert 0 < np.count_nonzero(expected == 0) < 40
    optimizer = FTRL(0.2, beta=1.5, l1=0.7, l2=0.3)
    dense = DenseStore([("a", 0, 40)], optimizer)
    sparse = Table("t", 5, 1, {"kind": "constant", "value": 0.0}, optimizer)
    ids = np.arange(8)
    rows = sparse.locate(ids)
    for step, grad in enumerate(grads, 1):
        dense.add(grad)
        dense.step(1, Clock(step, step, 0))
        sparse.add(rows, grad.reshape(8, 5))
        sparse.step(1, Clock(step, step, 0))
    close(dense.values, expected)
    assert dense.values.tobytes() == values(sparse, ids).tobytes()


def test_ftrl_begins_where_a_value_was_initialised() -> None:
    store = DenseStore([("a", 0, 3)], FTRL(0.1, l1=0.5, l2=0.2))
    store.values[:] = [0.5, -0.5, 0.0]
    store.add(np.full(3, 1e-6, np.float32))
    store.step(1, Clock(1, 1, 0))
    close(store.values, np.array([0.5, -0.5, 0.0], np.float32))


@pytest.mark.parametrize(
    ("schedule", "samples", "pass_id", "factor"),
    [
        (Schedule(), 10**9, 99, 1.0),
        (Poly(0.001, 0.75), 3000, 0, 4**-0.75),
        (PolyToZero(1000, 2), 500, 0, 0.25),
        (PolyToZero(1000, 2), 2000, 0, 0.0),
        (Exp(0.5, 100), 150, 0, 0.5**1.5),
        (DiscExp(0.5, 100), 199, 0, 0.5),
        (Linear(0.001, 0.2), 300, 0, 0.7),
        (Linear(0.001, 0.2), 3000, 0, 0.2),
        (Manual([(100, 1.0), (200, 0.5), (300, 0.1)]), 100, 9, 1.0),
        (Manual([(100, 1.0), (200, 0.5), (300, 0.1)]), 101, 9, 0.5),
        (Manual([(100, 1.0), (200, 0.5), (300, 0.1)]), 10**6, 9, 0.1),
        (PassManual([(0, 0.1), (4, 1.0)]), 10**6, 0, 0.1),
        (PassManual([(0, 0.1), (4, 1.0)]), 10**6, 1, 1.0),
    ],
)
def test_schedules_scale_the_learning_rate(schedule: Schedule, samples: int, pass_id: int, factor: float) -> None:
    assert schedule.factor(samples, pass_id) == pytest.approx(factor)
    store = DenseStore([("a", 0, 4)], SGD(0.5, schedule=schedule))
    store.add(np.ones(4, np.float32))
    store.step(1, Clock(1, samples, pass_id))
    close(store.values, np.full(4, -0.5 * factor, np.float32))


def test_l1_pulls_values_towards_zero_after_the_step_and_no_further() -> None:
    store = DenseStore([("a", 0, 4)], SGD(0.1, l1=2.0))
    store.values[:] = [1.0, -1.0, 0.1, -0.1]
    store.add(np.ones(4, np.float32))
    store.step(1, Clock(1, 1, 0))
    close(store.values, np.array([0.7, -0.9, 0.0, 0.0], np.float32))


def test_clipping_bounds_each_element_of_the_mean_gradient() -> None:
    store = DenseStore([("a", 0, 4)], SGD(1.0, clip=0.5))
    store.add(np.array([6, 1, 0, -40], np.float32))
    store.add(np.array([2, 1, 0, 0], np.float32))
    store.step(8, Clock(1, 8, 0))
    close(store.values, np.array([-0.5, -0.25, 0, 0.5], np.float32))


def test_a_parameter_can_have_its_own_rate_decay_clip_and_optimizer() -> None:
    options = {
        "slow": ParamOptions(lr=0.5),
        "frozen": ParamOptions(lr=0),
        "plain": ParamOptions(l2=0.0, clip=0.1),
        "wide": ParamOptions(optimizer=AdaGrad(0.2)),
    }
    blocks = [(name, 0, 2) for name in ("own", "slow", "frozen", "plain", "wide")]
    store = DenseStore(blocks, SGD(0.1, l2=1.0), options)
    store.values[:] = 1.0
    store.add(np.ones(10, np.float32))
    store.step(1, Clock(1, 1, 0))
    close(store.values, np.repeat(np.array([0.8, 0.9, 1.0, 0.99, 0.8], np.float32), 2))


def test_a_round_without_samples_changes_nothing() -> None:
    store = DenseStore([("a", 0, 3)], SGD(0.1, momentum=0.9, l2=1.0))
    store.values[:] = 1.0
    store.step(0, Clock(1, 0, 0))
    assert (store.values == 1.0).all()


def test_a_gradient_that_is_not_finite_is_named() -> None:
    store = DenseStore([("a", 0, 5000), ("b", 10, 20)], SGD())
    grad = np.zeros(5010, np.float32)
    assert store.add(grad) is None
    for bad in (np.nan, np.inf, -np.inf):
        grad[5003] = bad
        assert store.add(grad) == "b"
    rows = table(SGD())
    assert rows.add(rows.locate(np.arange(3)), np.full((3, 5), np.nan, np.float32)) == "t"


def train(optimizer: Optimizer, blocks: list[tuple[str, int, int]], part: slice, state: Any = None) -> DenseStore:
    """Ten steps on a part of a parameter of 100; the last five after a restart when `state` turns pieces into others."""
    store = DenseStore(blocks, optimizer)
    store.values[:] = normal(0, 100)[part]
    for step in range(1, 11):
        if step == 6 and state is not None:
            store = DenseStore(blocks, optimizer)
            store.restore(state)
        store.add(normal(step, 100)[part])
        store.step(1, Clock(step, step, 0))
    return store


@pytest.mark.parametrize("optimizer", [case[0] for case in SAME_AS_TORCH + DENSE_ONLY] + [FTRL(l1=0.1)], ids=label)
def test_state_cut_for_three_services_restores_two(optimizer: Optimizer) -> None:
    def after_five(start: int, stop: int) -> DenseStore:
        store = DenseStore([("w", start, stop)], optimizer)
        store.values[:] = normal(0, 100)[start:stop]
        for step in range(1, 6):
            store.add(normal(step, 100)[start:stop])
            store.step(1, Clock(step, step, 0))
        return store

    pieces: dict[str, np.ndarray] = {}
    for start, stop in ((0, 33), (33, 66), (66, 100)):
        pieces |= after_five(start, stop).state()
    whole = train(optimizer, [("w", 0, 100)], slice(0, 100))
    for start, stop in ((0, 50), (50, 100)):
        half = train(optimizer, [("w", start, stop)], slice(start, stop), pieces)
        assert half.values.tobytes() == whole.values[start:stop].tobytes()


def test_a_checkpoint_of_another_model_or_optimizer_is_refused() -> None:
    pieces = DenseStore([("w", 0, 50), ("v", 0, 10)], Adam()).state()
    with pytest.raises(InputError, match=r"lacks elements 50 to 60 of parameter 'w'"):
        DenseStore([("w", 0, 60)], Adam()).restore(pieces)
    with pytest.raises(InputError, match=r"2 slots .* 'v' .* 1: resume with the optimizer"):
        DenseStore([("v", 0, 10)], AdaGrad()).restore(pieces)


@pytest.mark.parametrize("optimizer", [case[0] for case in SAME_AS_TORCH + DENSE_ONLY] + [FTRL(l1=0.1)], ids=label)
def test_two_runs_give_the_same_bytes(optimizer: Optimizer) -> None:
    blocks = [("w", 0, 60), ("v", 0, 40)]
    first, second = (train(optimizer, blocks, slice(0, 100)).state() for _ in range(2))
    assert all(first[key].tobytes() == second[key].tobytes() for key in first)


SETTINGS: list[Optimizer] = [
    SGD(1, momentum=0.1, dampening=0.2, l1=1e-7, l2=1 / 3, clip=2),
    AdaGrad(0.1, schedule=Poly(1e-9, 0.75)),
    RMSProp(schedule=PolyToZero(1e6)),
    Adam(schedule=Exp(0.1, 3)),
    AdamW(schedule=DiscExp(0.1, 3)),
    AdaDelta(schedule=Linear(1e-7)),
    FTRL(schedule=Manual([(1, 0.1), (2, 0.3)])),
    FTRL(schedule=PassManual([(1, 0.1), (2, 0.3)])),
]


@pytest.mark.parametrize("optimizer", SETTINGS, ids=label)
def test_settings_survive_json_exactly(optimizer: Optimizer) -> None:
    assert optimizer_from_json(json.loads(json.dumps(to_json(optimizer)))) == optimizer
    options = ParamOptions(0.1, l1=0.3, optimizer=optimizer)
    assert options_from_json(json.loads(json.dumps(to_json(options)))) == options


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "optimizer must be an object with a kind, not []"),
        ({"kind": "Lion"}, "optimizer.kind must be one of AdaDelta, AdaGrad, .*, not 'Lion'"),
        ({"kind": "SGD", "lr": "fast"}, "SGD.lr must be a number of at least 0, not 'fast'"),
        ({"kind": "SGD", "beta": 1}, "optimizer.beta is not a field of SGD; it has lr, "),
        ({"kind": "SGD", "schedule": {"kind": "Poly", "a": 1}}, "optimizer.schedule.b is missing"),
        ({"kind": "SGD", "schedule": {"kind": "Cos"}}, "optimizer.schedule.kind must be one of .*, not 'Cos'"),
    ],
)
def test_bad_json_is_told_by_its_field(data: Any, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("[]", r"\[\]")):
        optimizer_from_json(data)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SGD(-1), "SGD.lr"),
        (lambda: SGD(float("nan")), "SGD.lr"),
        (lambda: SGD(True), "SGD.lr"),
        (lambda: SGD(nesterov=True), "SGD.nesterov needs a momentum"),
        (lambda: Adam(beta1=1), "Adam.beta1 must be at least 0 and below 1, not 1"),
        (lambda: AdamW(l2=-1), "AdamW.l2"),
        (lambda: RMSProp(clip=0), "RMSProp.clip must be a number above 0"),
        (lambda: RMSProp(centered=1), "RMSProp.centered must be True or False"),
        (lambda: AdaGrad(schedule=0.1), "AdaGrad.schedule must be one of .*Poly"),
        (lambda: Manual([(2, 1), (1, 1)]), "Manual.segments .* rising"),
        (lambda: Optimizer(), "write one of AdaDelta, "),
        (lambda: ParamOptions(lr=-1), "ParamOptions.lr"),
        (lambda: ParamOptions(optimizer="adam"), "ParamOptions.optimizer"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
