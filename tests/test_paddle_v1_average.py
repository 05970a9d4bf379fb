"""Model averages: the sums against the original's formulas, and jobs that test and save the mean but train without it."""

from __future__ import annotations

import contextlib
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import v1demo
from tests.processes import snapshot_bytes
from tests.test_paddle_v1_engine_jobs import demo, loaded, zeros
from tests.test_paddle_v1_language import graph
from tests.trainers import BOTH, server, train
from umiak.display.progress import values_of
from umiak.errors import InputError
from umiak.messages.events import Event, Pass
from umiak.paddle_v1.rules.settings import V1Momentum
from umiak.pserver.average import Averaging
from umiak.pserver.dense import DenseStore
from umiak.pserver.optimizers import Clock
from umiak.pserver.protocol import Dense, Flags, ServiceSpec
from umiak.pserver.service import Contribution, Service
from umiak.rundir.parameterfile import read_parameter
from umiak.spec.average import Average
from umiak.spec.optim import to_json

__all__ = ["demo"]


class Original:
    """AverageOptimizer of v0.10.0, written down once more, for one number."""

    def __init__(self, window: float, most: int | None) -> None:
        self.window, self.given = window, most
        self.updates = self.before = self.count = self.old = 0
        self.longest = 0x7FFFFFFFFFFFFFFF if most is None else most
        self.shortest = min(10000, self.longest)
        self.sum1 = self.sum2 = self.sum3 = np.float32(0)

    def too_long(self) -> bool:
        return self.count >= self.shortest and self.count >= min(self.longest, int(self.updates * self.window))

    def update(self, value: np.float32) -> None:
        self.updates += 1
        self.count += 1
        self.sum1 = np.float32(self.sum1 + value)
        if self.updates % 16384 == 0:
            self.sum2, self.sum1 = np.float32(self.sum2 + self.sum1), np.float32(0)
        if self.too_long():
            self.sum3 = np.float32(self.sum1 + self.sum2)
            self.sum1 = self.sum2 = np.float32(0)
            self.old, self.count = self.count, 0

    def finish_pass(self) -> None:
        if self.given is None:
            self.longest, self.before = self.updates - self.before, self.updates
        self.shortest = min(self.shortest, self.updates)

    def apply(self) -> np.float32:
        scale = np.float32(1.0 / (self.count + self.old))
        return np.float32(scale * self.sum1 + scale * self.sum2 + scale * self.sum3)


@pytest.mark.parametrize(
    ("window", "most", "passes"),
    [(0.5, None, (40, 40, 7, 100)), (0.5, 30, (50, 50, 50)), (0.15, None, (10, 90, 400)), (0.5, None, (17000, 3000))],
)
def test_sums_follow_the_formulas_of_the_original(window: float, most: int | None, passes: tuple[int, ...]) -> None:
    ours, theirs = Averaging(Average(window, most), 1), Original(window, most)
    draw = np.random.default_rng(1)
    dropped = 0
    for updates in passes:
        for _ in range(updates):
            value = np.float32(draw.standard_normal())
            ours.add(np.array([value]))
            theirs.update(value)
            dropped += theirs.count == 0
            assert ours.mean(np.zeros(1, np.float32))[0] == theirs.apply()
        ours.end_pass()
        theirs.finish_pass()
    assert dropped, "the window never closed, so this tested little"


def test_before_the_first_update_the_mean_is_the_values() -> None:
    store = DenseStore([("a", 0, 3)], V1Momentum(0.1), average=Average(0.5))
    store.values[:] = 7
    assert store.read(Dense.AVERAGED)[0].tolist() == [7, 7, 7]


def test_a_service_averages_the_values_after_each_update_and_trains_without_them() -> None:
    def service(average: Average | None) -> Service:
        told = average.to_json() if average else None
        spec = ServiceSpec(0, 1, 1, 1, to_json(V1Momentum(0.1)), {}, [("d", 0, 2)], [], 0, 1, average=told)
        return Service(ServiceSpec.from_json(json.loads(json.dumps(spec.to_json()))), np.ones(2, np.float32))

    plain, averaging = service(None), service(Average(0.5, 4))
    seen = []
    for number in range(3):
        for each in (plain, averaging):
            part = Contribution(5, Flags.NONE, 0.0, np.full(2, (number + 1) / 5, np.float32))
            assert each.contribute(0, number, part)
            each.finish()
        assert plain.dense.values.tobytes() == averaging.dense.values.tobytes()
        seen.append(plain.dense.values.copy())
    np.testing.assert_allclose(averaging.dense.read(Dense.AVERAGED)[0], np.mean(seen, 0), rtol=1e-6)
    assert averaging.dense.read(Dense.VALUES)[0] is averaging.dense.values


def test_sums_cut_for_three_services_restore_two() -> None:
    def trained(start: int, stop: int, state: dict[str, np.ndarray] | None, last: int) -> DenseStore:
        store = DenseStore([("w", start, stop)], V1Momentum(0.1), average=Average(0.5))
        draw = np.random.default_rng(0)
        gradients = draw.standard_normal((10, 100)).astype(np.float32)
        if state is not None:
            store.restore(state)
        for number in range(0 if state is None else 5, last):
            store.add(gradients[number, start:stop])
            store.step(1, Clock(number + 1, number + 1, 0))
        return store

    pieces: dict[str, np.ndarray] = {}
    for start, stop in ((0, 33), (33, 66), (66, 100)):
        pieces |= trained(start, stop, None, 5).state()
    whole = trained(0, 100, None, 10).average
    assert whole is not None
    for start, stop in ((0, 50), (50, 100)):
        half = trained(start, stop, pieces, 10).average
        assert half is not None and half.sums.tobytes() == whole.sums[:, start:stop].tobytes()


def values(snapshot: Path) -> np.ndarray:
    return read_parameter(snapshot / "___fc_layer_0__.w0", v1demo.WORDS * 2)


@pytest.mark.parametrize("trainers", [1, 2], ids=["alone", "on servers"])
def test_snapshots_hold_the_mean_and_training_does_not_see_it(demo: Path, tmp_path: Path, trainers: int) -> None:
    """A snapshot of every batch is what an average over a pass must be the mean of."""
    options: dict[str, Any] = {"local": trainers == 1, "num_passes": 2, "init_model_path": zeros(tmp_path / "zeros")}
    common: dict[str, Any] = {"local": trainers == 1, "lr": 1, "method": "rmsprop"}
    with contextlib.ExitStack() as stack:
        on = stack.enter_context(server(trainers, (BOTH, BOTH))) if trainers > 1 else None
        train(loaded(demo, **common), tmp_path / "steps", on, saving_period_by_batches=1, **options)
        plain = train(loaded(demo, **common), tmp_path / "plain", on, **options)
        averaged = train(loaded(demo, average=2.0, **common), tmp_path / "averaged", on, **options)
    steps = sorted((tmp_path / "steps").glob("pass-00000-*"))
    last = values(tmp_path / "plain" / "pass-00000")
    expected = (sum(values(step).astype(np.float64) for step in steps) + last) / (len(steps) + 1)
    np.testing.assert_allclose(values(tmp_path / "averaged" / "pass-00000"), expected, rtol=1e-4, atol=1e-6)
    assert np.abs(expected - last).max() > 1e-3, "the mean is the last value, so this tested little"
    assert costs(plain, "train") == costs(averaged, "train"), "averaging changed what was trained"
    assert costs(plain, "test") != costs(averaged, "test"), "tests did not see the mean"


def costs(events: list[Event], part: str) -> list[float]:
    return [values_of(event, part)["cost"] for event in events if isinstance(event, Pass)]


def test_resuming_changes_no_byte_of_a_mean(demo: Path, tmp_path: Path) -> None:
    job = loaded(demo, method="rmsprop", average=0.15)
    with server(1, (BOTH, BOTH)) as on:
        train(job, tmp_path / "whole", on, num_passes=4)
        train(job, tmp_path / "cut", on, num_passes=2)
        train(job, tmp_path / "cut", on, num_passes=4, resume=True)
    assert snapshot_bytes(tmp_path / "cut") == snapshot_bytes(tmp_path / "whole")


def test_averaged_values_are_tried_on_the_batches_that_average_test_period_names(
    demo: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = loaded(demo, local=True, average=0.5)
    with caplog.at_level(logging.INFO, "umiak.trainer"):
        train(job, tmp_path / "out", None, local=True, log_period=5, average_test_period=10)
    lines = [line for line in caplog.messages if line.startswith(" Averaged parameter: cost=")]
    batches = -(-v1demo.TRAIN // 8)
    assert len(lines) == batches // 10 and "classification_error_evaluator=" in lines[0]
    with pytest.raises(InputError, match="--average_test_period=7 must be a multiple of --log_period=5"):
        train(job, tmp_path / "bad", None, local=True, log_period=5, average_test_period=7)


def test_settings_of_both_versions_ask_for_an_average(tmp_path: Path) -> None:
    end = "\noutputs(data_layer(name='d', size=1))\n"
    new = graph(tmp_path, "settings(batch_size=1, model_average=ModelAverage(0.5, max_average_window=100))" + end)
    old = graph(tmp_path, "settings(batch_size=1, average_window=0.5, max_average_window=100)" + end, version="0.9")
    assert [(made.settings.average_window, made.settings.max_average_window) for made in (new, old)] == [(0.5, 100)] * 2
    with pytest.raises(InputError, match=r"config\.py:3: settings: average_window was of 0\.9"):
        graph(tmp_path, "settings(batch_size=1, average_window=0.5)" + end)
    with pytest.raises(InputError, match=r"config\.py:3: settings: model_average must be a ModelAverage"):
        graph(tmp_path, "settings(batch_size=1, model_average=0.5)" + end)


def test_an_average_of_a_table_is_refused(demo: Path) -> None:
    with pytest.raises(InputError, match="'words' has sparse_update=True, and settings\\(\\) asks for a model average"):
        loaded(demo, method="sgd", sparse=1, average=0.5)
