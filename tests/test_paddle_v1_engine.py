"""The update rules of v1 on the servers, against the formulas written down once more in float64, step by step."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from umiak.errors import InputError
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
from umiak.pserver import registry
from umiak.pserver.asynchronous import service_for
from umiak.pserver.dense import DenseStore
from umiak.pserver.optimizers import Clock
from umiak.pserver.protocol import Fetch, Flags, ServiceSpec, TableSpec
from umiak.pserver.service import Contribution, Service
from umiak.pserver.table import Table
from umiak.spec.optim import ParamOptions, PassManual, Poly, optimizer_from_json, to_json

State = dict[str, np.ndarray]
Rate = Callable[[V1, State, np.ndarray, int], np.ndarray]
STEPS = 12
DIM = 4


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(ours: np.ndarray, theirs: np.ndarray) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=3e-5, atol=3e-6)


def slot(state: State, name: str, like: np.ndarray) -> np.ndarray:
    return state.setdefault(name, np.zeros(like.shape))


def no_rate(rule: V1, state: State, g: np.ndarray, t: int) -> np.ndarray:
    return np.ones(g.shape)


def adagrad(rule: V1AdaGrad, state: State, g: np.ndarray, t: int) -> np.ndarray:
    state["sum"] = slot(state, "sum", g) + g**2
    return 1 / np.sqrt(state["sum"] + rule.eps)


def adadelta(rule: V1AdaDelta, state: State, g: np.ndarray, t: int) -> np.ndarray:
    state["g2"] = rule.rho * slot(state, "g2", g) + (1 - rule.rho) * g**2
    rate = np.sqrt((slot(state, "x2", g) + rule.eps) / (state["g2"] + rule.eps))
    state["x2"] = rule.rho * state["x2"] + (1 - rule.rho) * (rate * g) ** 2
    return rate


def rmsprop(rule: V1RMSProp, state: State, g: np.ndarray, t: int) -> np.ndarray:
    state["r"] = g**2 if t == 1 else rule.rho * state["r"] + (1 - rule.rho) * g**2
    state["f"] = rule.rho * slot(state, "f", g) + (1 - rule.rho) * g
    return 1 / np.sqrt(state["r"] - state["f"] ** 2 + rule.eps)


def decayed(rule: V1DecayedAdaGrad, state: State, g: np.ndarray, t: int) -> np.ndarray:
    state["r"] = g**2 if t == 1 else rule.rho * state["r"] + (1 - rule.rho) * g**2
    return 1 / np.sqrt(state["r"] + rule.eps)


RATES: dict[type[V1], Rate] = {
    V1Momentum: no_rate,
    V1AdaGrad: adagrad,
    V1AdaDelta: adadelta,
    V1RMSProp: rmsprop,
    V1DecayedAdaGrad: decayed,
}  # type: ignore[dict-item]


def step(rule: V1, w: np.ndarray, state: State, g: np.ndarray, t: int) -> np.ndarray:
    """One dense step by facts 6.3, with L1 and L2 as far as the original lets them act."""
    g = np.clip(g.astype(np.float64), *((-rule.clip, rule.clip) if rule.clip else (None, None)))
    if isinstance(rule, V1Adam):
        state["m"] = rule.beta1 * slot(state, "m", g) + (1 - rule.beta1) * g
        state["v"] = rule.beta2 * slot(state, "v", g) + (1 - rule.beta2) * g**2
        scale = rule.lr * np.sqrt(1 - rule.beta2**t) / (1 - rule.beta1**t)
        w, rate = w - scale * state["m"] / (np.sqrt(state["v"]) + rule.eps), np.ones(g.shape)
    elif isinstance(rule, V1Adamax):
        state["m"] = rule.beta1 * slot(state, "m", g) + (1 - rule.beta1) * g
        state["u"] = np.maximum(rule.beta2 * slot(state, "u", g), np.abs(g))
        w, rate = w - rule.lr / (1 - rule.beta1**t) * state["m"] / state["u"], np.ones(g.shape)
    else:
        rate = RATES[type(rule)](rule, state, g, t)
        l2 = 0.0 if rule.l1 else rule.l2
        state["mom"] = rule.momentum * slot(state, "mom", g) - rule.lr * rate * (g + l2 * w)
        w = w + state["mom"]
    if rule.l1:
        w = np.sign(w) * np.maximum(np.abs(w) - rule.lr * rate * rule.l1, 0)
        w = w / (1 + rule.lr * rate * rule.l2)
    return w


CASES: list[V1] = [
    V1Momentum(0.1),
    V1Momentum(0.1, momentum=0.9, l2=0.05),
    V1Momentum(0.1, l1=0.2),
    V1Momentum(0.1, l1=0.2, l2=0.3, clip=0.5),
    V1AdaGrad(0.1, l2=0.05, momentum=0.5),
    V1AdaGrad(0.1, l1=0.05, l2=0.1),
    V1AdaDelta(1.0, l2=0.05),
    V1RMSProp(0.01, l2=0.05),
    V1RMSProp(0.01, rho=0.7, momentum=0.9),
    V1DecayedAdaGrad(0.01, l1=0.1),
    V1Adam(0.01),
    V1Adam(0.01, eps=0.1, beta1=0.5, beta2=0.7),
    V1Adam(0.01, l1=0.1, l2=0.1),
    V1Adamax(0.01, clip=0.3),
]


def told(rule: object) -> str:
    if not isinstance(rule, V1):
        return ""
    kept = {name: value for name, value in vars(rule).items() if value and name != "schedule"}
    return type(rule).__name__ + "".join(f"-{name}={value}" for name, value in kept.items())


@pytest.mark.parametrize("rule", CASES, ids=told)
def test_dense_values_move_by_the_sum_of_gradients_as_in_v1(rule: V1) -> None:
    store = DenseStore([("a", 0, 3000), ("b", 100, 2100)], rule)
    store.values[:] = normal(0, 5000)
    expected, state = store.values.astype(np.float64), {}
    for t in range(1, STEPS + 1):
        first, second = normal(2 * t, 5000), normal(2 * t + 1, 5000)
        store.add(first)
        store.add(second)
        store.step(256, Clock(t, 256 * t, 0))
        expected = step(rule, expected, state, first + second, t)
    close(store.values, expected)


def test_adam_ignores_l2_for_dense_parameters() -> None:
    stores = [DenseStore([("a", 0, 50)], rule) for rule in (V1Adam(0.01), V1Adam(0.01, l2=0.5))]
    for store in stores:
        store.values[:] = 1
        store.add(normal(1, 50))
        store.step(8, Clock(1, 8, 0))
    assert stores[0].values.tobytes() == stores[1].values.tobytes()


@pytest.mark.parametrize("rule", [V1Momentum(0.5), V1AdaDelta(0.5), V1RMSProp(0.5), V1DecayedAdaGrad(0.5)], ids=told)
def test_schedules_by_samples_act(rule: V1) -> None:
    assert_scheduled(rule, 0.25)


@pytest.mark.parametrize("rule", [V1Adam(0.5), V1Adamax(0.5), V1AdaGrad(0.5)], ids=told)
def test_adam_adamax_and_adagrad_ignore_schedules(rule: V1) -> None:
    assert_scheduled(rule, 1.0)


def assert_scheduled(rule: V1, factor: float) -> None:
    plain, scheduled = (DenseStore([("a", 0, 5)], r) for r in (rule, replace(rule, schedule=Poly(0.03, 1))))
    for store in (plain, scheduled):
        store.add(np.ones(5, np.float32))
        store.step(100, Clock(1, 100, 0))
    close(scheduled.values, plain.values * factor)


def test_adamax_leaves_alone_what_has_had_no_gradient() -> None:
    """The original divides 0 by 0 there."""
    store = DenseStore([("a", 0, 2)], V1Adamax(0.1))
    store.add(np.array([0, 1], np.float32))
    store.step(1, Clock(1, 1, 0))
    close(store.values, np.array([0, -0.1]))


def test_a_parameter_has_its_own_rate_decay_momentum_and_clip() -> None:
    base = V1Momentum(0.1, l2=1.0)
    options = {
        "slow": ParamOptions(lr=0.5),
        "bare": ParamOptions(l2=0.0, clip=0.1),
        "heavy": ParamOptions(optimizer=replace(base, momentum=0.5)),
        "still": ParamOptions(lr=0),
    }
    store = DenseStore([(name, 0, 1) for name in ("own", *options)], base, options)
    store.values[:] = 1
    for t in (1, 2):
        store.add(np.ones(5, np.float32))
        store.step(7, Clock(t, 7 * t, 0))
    close(store.values, np.array([0.62, 0.805, 0.98, 0.52, 1.0]))


def table(rule: V1, vocab: int = 6) -> Table:
    return Table("t", DIM, 1, {"kind": "normal", "mean": 0.0, "std": 1.0}, rule, vocab=vocab)


def values(store: Table) -> np.ndarray:
    out = np.empty((6, DIM), np.float32)
    store.peek(np.arange(6), out)
    return out


SPARSE: list[V1] = [
    V1Momentum(0.1),
    V1Momentum(0.1, l2=0.3),
    V1Momentum(0.1, l1=0.02, l2=0.3),
    V1AdaGrad(0.1, l2=0.3),
    V1RMSProp(0.05, rho=0.8, l2=0.3),
    V1DecayedAdaGrad(0.05, rho=0.8, l1=0.01),
]


@pytest.mark.parametrize("rule", SPARSE, ids=told)
def test_rows_catch_up_with_the_regularisation_of_steps_that_did_not_touch_them(rule: V1) -> None:
    """Two passes; a row not touched is regularised when it is next touched, or at the end of the pass."""
    store = table(rule)
    numbers = store.locate(np.arange(6))
    w = values(store).astype(np.float64)
    bare = replace(rule, l1=0.0, l2=0.0)
    states: list[State] = [{} for _ in range(6)]
    rates = [np.ones(DIM) if isinstance(rule, V1Momentum) else np.zeros(DIM) for _ in range(6)]
    touched, due, t = [0] * 6, [0] * 6, 0

    def regularise(row: int, times: int) -> None:
        pull = rule.lr * rates[row] * times
        w[row] = np.sign(w[row]) * np.maximum(np.abs(w[row]) - pull * rule.l1, 0) / (1 + pull * rule.l2)

    for pass_id in range(2):
        begun = t
        due = [begun] * 6
        for _ in range(STEPS):
            t += 1
            chosen = np.flatnonzero(np.random.default_rng(t).random(5) < 0.4)  # row 5 is never touched
            grads = normal(t, len(chosen), DIM)
            store.add(numbers[chosen], grads)
            store.step(9, Clock(t, 9 * t, pass_id, begun))
            for row, grad in zip(chosen, grads.astype(np.float64), strict=True):
                for name in ("r", "f"):
                    if name in states[row]:
                        # A mean of squares has faded for every step since, the present one included.
                        states[row][name] = states[row][name] * getattr(rule, "rho", 1.0) ** (t - touched[row] - 1)
                w[row] = step(bare, w[row], states[row], grad, t if touched[row] else 1)
                if not isinstance(rule, V1Momentum):
                    rates[row] = rate_now(rule, states[row])
                regularise(row, t - due[row])
                touched[row] = due[row] = t
        store.catch_up(Clock(t, 9 * t, pass_id, begun))
        for row in range(6):
            regularise(row, t - due[row])
    close(values(store), w)


def rate_now(rule: V1, state: State) -> np.ndarray:
    eps: float = getattr(rule, "eps", 0.0)
    spread = state["sum"] if "sum" in state else state["r"] - (state["f"] ** 2 if "f" in state else 0)
    return np.asarray(1 / np.sqrt(spread + eps))


def service(rule: V1, mode: str = "sync", trainers: int = 1) -> Service:
    tables = [TableSpec("t", DIM, {"kind": "normal", "mean": 0.0, "std": 1.0}, 6)]
    spec = ServiceSpec(0, 1, trainers, 1, to_json(rule), {}, [("d", 0, 3)], tables, 0, 1, mode=mode)
    return service_for(spec, np.ones(3, np.float32))


def test_rows_nobody_ever_asked_for_shrink_at_the_end_of_a_pass_too() -> None:
    store = service(V1Momentum(0.1, l2=1.0))
    before = values(store.tables[0])
    for number in range(3):
        store.want(0, [np.empty(0, np.int64)])
        flags = Flags.OUT_OF_DATA if number == 2 else Flags.NONE
        part = Contribution(5, flags, 0.0, np.zeros(3, np.float32), [np.zeros((0, DIM), np.float32)])
        assert store.contribute(0, number, part)
        store.finish()
    close(values(store.tables[0]), before / 1.3)
    close(store.dense.values, np.full(3, 0.9**3))
    assert store.clock == Clock(3, 15, 1, 3)


def test_the_gradient_of_a_round_is_the_sum_over_trainers_and_samples() -> None:
    store = service(V1Momentum(0.1), trainers=2)
    for trainer in range(2):
        store.fetch(trainer, [np.array([1])], Fetch.CREATE)
        store.want(trainer, [np.array([1])])
        part = Contribution(
            50, Flags.NONE, 0.0, np.full(3, 2 / 50, np.float32), [np.full((1, DIM), (trainer + 1) / 50, np.float32)]
        )
        store.contribute(trainer, 0, part)
    before = values(store.tables[0])[1]
    store.finish()
    close(store.dense.values, np.full(3, 1 - 0.1 * 4))
    close(values(store.tables[0])[1], before - 0.1 * 3)


@pytest.mark.parametrize(("mode", "counted"), [("sync", 30), ("async", 0)])
def test_schedules_count_the_samples_of_the_update_itself_only_in_rounds(mode: str, counted: int) -> None:
    store = service(V1Momentum(0.1, schedule=Poly(1.0, 1.0)), mode)
    store.want(0, [np.empty(0, np.int64)])
    part = Contribution(30, Flags.NONE, 0.0, np.full(3, 1 / 30, np.float32), [np.zeros((0, DIM), np.float32)])
    if mode == "async":
        store.apply(0, part)  # type: ignore[attr-defined]
    else:
        store.contribute(0, 0, part)
        store.finish()
    close(store.dense.values, np.full(3, 1 - 0.1 / (1 + counted)))


def test_rules_survive_json() -> None:
    for rule in [*CASES, V1Adam(schedule=PassManual([(1, 0.5)]))]:
        assert optimizer_from_json(json.loads(json.dumps(to_json(rule))), registry.kinds()) == rule


def test_l1_and_momentum_exclude_each_other_as_in_v1() -> None:
    with pytest.raises(InputError, match="both L1 regularisation and a momentum"):
        V1Momentum(0.1, l1=0.1, momentum=0.9)


@pytest.mark.parametrize("rule", CASES, ids=told)
def test_state_cut_for_three_services_restores_two(rule: V1) -> None:
    def train(start: int, stop: int, state: dict[str, np.ndarray] | None, last: int) -> DenseStore:
        store = DenseStore([("w", start, stop)], rule)
        store.values[:] = normal(0, 100)[start:stop]
        if state is not None:
            store.restore(state)
        for t in range(6 if state is not None else 1, last + 1):
            store.add(normal(t, 100)[start:stop])
            store.step(1, Clock(t, t, 0))
        return store

    pieces: dict[str, np.ndarray] = {}
    for start, stop in ((0, 33), (33, 66), (66, 100)):
        pieces |= train(start, stop, None, 5).state()
    whole = train(0, 100, None, 10)
    for start, stop in ((0, 50), (50, 100)):
        assert train(start, stop, pieces, 10).values.tobytes() == whole.values[start:stop].tobytes()
