"""Training until it gets no better: --patience, Config(best=…) and the link to the best snapshot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import umiak as package
from tests.processes import snapshot_bytes, umiak
from umiak.errors import InputError
from umiak.nn.metrics import AUC
from umiak.spec.config import Config
from umiak.trainer.stopping import Best, Rule

NOISE = """
import numpy as np
import torch

import umiak
from umiak.nn.metrics import RMSE


def table(seed, samples):
    draw = np.random.default_rng(seed)
    inputs = draw.standard_normal((samples, 30)).astype("float32")
    return umiak.data.Columns({"inputs": inputs, "target": (inputs[:, 0] + draw.standard_normal(samples)).astype("float32")})


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(30, 64), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 1))

    def forward(self, batch):
        return self.net(batch["inputs"])[:, 0]


config = umiak.Config(
    model=Model,
    train=table(1, 60),
    test=table(2, 60),
    loss=lambda output, batch: torch.nn.functional.mse_loss(output, batch["target"]),
    optimizer=umiak.Adam(lr=0.02),
    batch_size=10,
    metrics={"rmse": RMSE()},
    best="rmse",
)
"""
"""Sixty noisy samples of thirty inputs: it gets better for some passes, then learns them by heart."""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "noise.py"
    path.write_text(NOISE)
    return path


def results_of(out: Path) -> list[float]:
    events = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [event["test"]["rmse"] for event in events if event["event"] == "pass"]


def test_training_stops_when_it_gets_no_better_and_best_links_to_the_best_snapshot(
    tmp_path: Path, config: Path
) -> None:
    out = tmp_path / "run"
    said = umiak("train", config, "--workers", "2", "--passes", "60", "--patience", "3", "--out", out)
    values = results_of(out)
    best = values.index(min(values))
    assert len(values) == best + 1 + 3 < 60
    assert (out / "best").readlink() == Path(f"pass-{best:05d}")
    assert f"of pass {best} in 3 passes: training stops" in said
    assert (out / f"pass-{len(values) - 1:05d}" / "done").exists()
    tested = umiak("test", out / "best", "--config", config)
    assert f"{min(values):.6f}" in tested


def test_a_run_that_was_stopped_remembers_its_best_pass(tmp_path: Path, config: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    umiak("train", config, "--local", "--passes", "60", "--patience", "3", "--out", whole)
    ended = len(results_of(whole))
    umiak("train", config, "--local", "--passes", ended - 1, "--patience", "3", "--out", parts)
    umiak("train", config, "--local", "--passes", "60", "--patience", "3", "--out", parts, "--resume")
    assert results_of(parts) == results_of(whole)
    assert snapshot_bytes(parts) == snapshot_bytes(whole)
    assert (parts / "best").readlink() == (whole / "best").readlink()
    umiak("train", config, "--local", "--passes", "60", "--patience", "3", "--out", parts, "--resume")
    assert len(results_of(parts)) == ended, "a run that has stopped trains no further"
    umiak("train", config, "--local", "--passes", "60", "--patience", "4", "--out", parts, "--resume")
    assert len(results_of(parts)) > ended, "more patience continues it"


def test_the_best_snapshot_stays_where_only_one_is_kept(tmp_path: Path, config: Path) -> None:
    out = tmp_path / "run"
    umiak("train", config, "--local", "--passes", "60", "--patience", "2", "--save_only_one", "--out", out)
    values = results_of(out)
    best = values.index(min(values))
    kept = {path.name for path in out.glob("pass-*")}
    assert kept == {f"pass-{best:05d}", f"pass-{len(values) - 1:05d}"}
    umiak("train", config, "--local", "--passes", "2", "--save_only_one", "--out", out, "--overwrite")
    assert {path.name for path in out.glob("pass-*")} == {"pass-00001"}
    assert not (out / "best").is_symlink(), "--overwrite removes the link, and a link to nothing is not made"


def test_without_patience_every_pass_is_trained_and_the_link_leads_to_the_best_saved_one(
    tmp_path: Path, config: Path
) -> None:
    out = tmp_path / "run"
    (out / "best").mkdir(parents=True)
    umiak("train", config, "--local", "--passes", "5", "--out", out)
    assert (out / "best").is_dir() and not (out / "best").is_symlink(), "what somebody else put there stays"
    (out / "best").rmdir()
    umiak("train", config, "--local", "--passes", "7", "--saving_period", "3", "--out", out, "--overwrite")
    values = results_of(out)
    assert len(values) == 7
    saved = {number: values[number] for number in (0, 3, 6)}
    assert (out / "best").readlink() == Path(f"pass-{min(saved, key=lambda number: saved[number]):05d}")


def test_a_metric_that_should_rise_is_best_at_its_highest() -> None:
    rising = Rule("auc", higher=True, patience=1)
    assert rising.better(Best(0, 0.7), 1, {"auc": 0.8}) == Best(1, 0.8)
    assert rising.better(Best(0, 0.7), 1, {"auc": 0.6}) is None
    assert rising.better(Best(0, 0.7), 1, {"auc": 0.7}) is None, "the same again is no better"
    assert AUC.higher_is_better
    falling = Rule("cost", higher=False, patience=1)
    assert falling.better(Best(0, 0.7), 1, {"cost": float("nan")}) is None
    assert falling.better(Best(0, float("nan")), 1, {"cost": 5.0}) == Best(1, 5.0)
    assert not falling.is_over(Best(3, 1.0), 4) and falling.is_over(Best(3, 1.0), 5)
    assert not Rule("cost", higher=False, patience=0).is_over(Best(0, 1.0), 100)


def test_a_best_that_cannot_be_known_is_refused(tmp_path: Path, config: Path) -> None:
    def made(**options: object) -> Config:
        source = package.data.Columns({"x": [1.0]})
        return Config(model=dict, train=source, loss=print, optimizer=package.SGD(0.1), **options)  # type: ignore[arg-type]

    with pytest.raises(InputError, match="add Config"):
        made(best="cost")
    with pytest.raises(InputError, match="'auc', but there is only cost"):
        made(best="auc", test=package.data.Columns({"x": [1.0]}))
    config.write_text(NOISE.replace("    test=table(2, 60),\n", "").replace('    best="rmse",\n', ""))
    said = umiak("train", config, "--workers", "2", "--patience", "2", "--out", tmp_path / "run", code=2)
    assert "--patience compares the tests of passes" in said
    assert "--patience" in umiak("train", config, "--patience", "-1", code=2)
