"""Snapshots of v1 jobs: old names and bytes, those of the original read and continued, and parameters that are missing."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import umiak
from tests import v1demo
from tests.trainers import BOTH, server, train
from umiak.errors import InputError
from umiak.evaluation import evaluate
from umiak.launch.local import train as launch
from umiak.spec.load import Loaded, load
from umiak.spec.settings import Settings

SHAPES = {
    "words": (60, 6),
    "___fc_layer_0__.w0": (6, 5),
    "___fc_layer_0__.wbias": (5,),
    "___fc_layer_1__.w0": (5, 2),
    "___fc_layer_1__.wbias": (2,),
}


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    config = v1demo.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    return config


def loaded(config: Path, **arguments: Any) -> Loaded:
    return load(config, {name: str(value) for name, value in arguments.items()}, Settings())


def values(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("<f4")


def original(directory: Path, config: Path) -> Path:
    """A snapshot as the original's trainer wrote it, byte by byte."""
    directory.mkdir(parents=True)
    for seed, (name, shape) in enumerate(SHAPES.items()):
        content = values(shape, seed)
        (directory / name).write_bytes(struct.pack("<iIQ", 0, 4, content.size) + content.tobytes())
    (directory / "done").write_text("version=0\nwithGpu=0\nrealSize=4\n")
    (directory / config.name).write_text(config.read_text())
    (directory / "path.txt").write_text(config.name)
    return directory


def stored(path: Path) -> np.ndarray:
    version, size, count = struct.unpack("<iIQ", path.read_bytes()[:16])
    assert (version, size) == (0, 4)
    content = np.frombuffer(path.read_bytes()[16:], "<f4")
    assert len(content) == count
    return content


@pytest.mark.parametrize("sparse", [0, 1])
def test_a_snapshot_has_the_names_bytes_and_layout_of_v1(demo: Path, tmp_path: Path, sparse: int) -> None:
    with server(2, (BOTH, BOTH)) as on:
        train(loaded(demo, method="adagrad", sparse=sparse), tmp_path / "out", on)
    snapshot = tmp_path / "out" / "pass-00000"
    extra = {"done", "path.txt", demo.name, "model.json"}
    assert {path.name for path in snapshot.iterdir()} == {*SHAPES, *extra}, (
        "the provider is not copied, nothing is added"
    )
    assert {name: len(stored(snapshot / name)) for name in SHAPES} == {n: int(np.prod(s)) for n, s in SHAPES.items()}
    assert (snapshot / "path.txt").read_text() == demo.name
    assert json.loads((snapshot / "model.json").read_text())["paddle_version"] == "0.10"


@pytest.mark.parametrize("sparse", [0, 1])
def test_a_snapshot_of_the_original_is_where_training_begins(demo: Path, tmp_path: Path, sparse: int) -> None:
    """With a learning rate of 0 it comes out as it went in."""
    begin = original(tmp_path / "model" / "pass-00007", demo)
    with server(1, (BOTH,)) as on:
        job = loaded(demo, method="sgd", sparse=sparse, rate=0)
        train(job, tmp_path / "out", on, init_model_path=begin)
    for name in SHAPES:
        assert (tmp_path / "out" / "pass-00000" / name).read_bytes() == (begin / name).read_bytes()


def test_start_pass_goes_on_from_the_pass_before_in_the_output_directory(demo: Path, tmp_path: Path) -> None:
    original(tmp_path / "out" / "pass-00002", demo)
    job = loaded(demo, method="sgd", rate=0)
    train(job, tmp_path / "out", start_pass=3, num_passes=2, local=True)
    assert sorted(path.name for path in (tmp_path / "out").glob("pass-*")) == ["pass-00002", "pass-00003", "pass-00004"]
    assert stored(tmp_path / "out" / "pass-00004" / "words").tolist() == values((60, 6), 0).ravel().tolist()


def test_a_snapshot_of_the_original_is_tested_and_loaded(demo: Path, tmp_path: Path) -> None:
    """By hand: mean embedding, tanh (×0.8 for the dropout of 0.2), softmax."""
    snapshot = original(tmp_path / "model" / "pass-00007", demo)
    counts, labels = v1demo.samples(tmp_path, "test")
    table, w0, b0, w1, b1 = (values(shape, seed) for seed, shape in enumerate(SHAPES.values()))
    hidden = 0.8 * np.tanh(counts @ table / counts.sum(1, keepdims=True) @ w0 + b0)
    scores = hidden @ w1 + b1
    chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    tested = evaluate.test(Settings(init_model_path=snapshot))
    assert tested["samples"] == v1demo.TEST
    assert tested["cost"] == pytest.approx(-np.log(chances[np.arange(len(labels)), labels]).mean(), rel=1e-4)
    assert tested["classification_error_evaluator"] == pytest.approx((chances.argmax(1) != labels).mean())
    model = umiak.load(snapshot)
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == SHAPES


def test_training_begins_with_a_snapshots_own_config_where_none_is_named(demo: Path, tmp_path: Path) -> None:
    snapshot = original(tmp_path / "model" / "pass-00007", demo)
    # The provider is not in a snapshot; it is found in the working directory.
    arguments = {"method": "sgd", "rate": "0"}
    launch(
        Settings(save_dir=tmp_path / "out", init_model_path=snapshot, local=True, num_passes=1, config_args=arguments),
        lambda event: None,
    )
    assert (tmp_path / "out" / "pass-00000" / "words").read_bytes() == (snapshot / "words").read_bytes()


def test_the_version_a_snapshot_was_trained_with_is_kept(demo: Path, tmp_path: Path) -> None:
    old = load(demo, {"method": "sgd"}, Settings(paddle_version="0.9"))
    train(old, tmp_path / "out", local=True)
    assert json.loads((tmp_path / "out" / "pass-00000" / "model.json").read_text())["paddle_version"] == "0.9"
    assert old.fingerprint() != loaded(demo, method="sgd").fingerprint()


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.unlink(), "has no file for parameter '___fc_layer_0__.w0'"),
        (truncate, r"___fc_layer_0__.w0 is 132 bytes where 30 values take 136: it is damaged"),
        (lambda path: path.write_bytes(b"abc"), "___fc_layer_0__.w0 is too short for a parameter file"),
        (
            lambda path: path.write_bytes(struct.pack("<iIQ", 0, 8, 30)),
            "is not a parameter file: version 0, value size 8",
        ),
        (lambda path: (path.parent / "done").unlink(), "neither a snapshot nor an output directory"),
    ],
)
def test_a_bad_snapshot_is_one_message_and_nothing_is_written(
    demo: Path, tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    snapshot = original(tmp_path / "model", demo)
    spoil(snapshot / "___fc_layer_0__.w0")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=message):
        launch(Settings(config=demo, save_dir=tmp_path / "out", init_model_path=snapshot), lambda event: None)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("sparse", [0, 1])
@pytest.mark.parametrize("strategy", ["rand", "zero"])
def test_missing_parameters_begin_at_random_or_at_zero_if_told_to(
    demo: Path, tmp_path: Path, strategy: str, sparse: int
) -> None:
    snapshot = original(tmp_path / "model", demo)
    for name in ("words", "___fc_layer_0__.w0"):
        (snapshot / name).unlink()
    job = loaded(demo, method="sgd", sparse=sparse, rate=0)
    with server(1, (BOTH,)) as on:
        train(job, tmp_path / "out", on, init_model_path=snapshot, load_missing_parameter_strategy=strategy)
    after = {name: stored(tmp_path / "out" / "pass-00000" / name) for name in SHAPES}
    for name in ("words", "___fc_layer_0__.w0"):
        assert bool(after[name].any()) == (strategy == "rand")
    assert after["___fc_layer_1__.w0"].tolist() == values((5, 2), 3).ravel().tolist()
