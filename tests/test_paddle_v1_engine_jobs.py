"""Whole v1 jobs: what they compute against NumPy, what the config decides, and that kills and restarts change no byte."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import v1demo
from tests.processes import alive, descendants, kill_tree, snapshot_bytes, start, umiak
from tests.trainers import BOTH, server, train
from umiak.errors import InputError
from umiak.messages.events import Pass
from umiak.paddle_v1.rules.settings import V1Adam
from umiak.rundir.parameterfile import read_parameter, write_parameter
from umiak.spec.load import Loaded, load, settled
from umiak.spec.settings import Settings


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    config = v1demo.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    return config


def loaded(config: Path, local: bool = False, **arguments: Any) -> Loaded:
    return load(config, {name: str(value) for name, value in arguments.items()}, Settings(local=local))


def zeros(directory: Path) -> Path:
    """A snapshot as the original wrote them: no model.json."""
    directory.mkdir()
    write_parameter(directory / "___fc_layer_0__.w0", v1demo.WORDS * 2, [np.zeros((v1demo.WORDS, 2))])
    write_parameter(directory / "___fc_layer_0__.wbias", 2, [np.zeros(2)])
    (directory / "done").write_text("version=0\n")
    return directory


def regression(
    counts: np.ndarray, labels: np.ndarray, trainers: int, rate: float, decay: float, clip: float
) -> tuple[np.ndarray, np.ndarray]:
    """One pass of batches of 8 per trainer over samples in order, gradients added up, in float64."""
    w, b = np.zeros((v1demo.WORDS, 2)), np.zeros(2)
    parts = [np.arange(len(labels))[trainer::trainers] for trainer in range(trainers)]
    for start_at in range(0, max(map(len, parts)), 8):
        chosen = np.concatenate([part[start_at : start_at + 8] for part in parts])
        scores = counts[chosen] @ w + b
        chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        errors = chances - np.eye(2)[labels[chosen]]
        dw, db = counts[chosen].T @ errors, errors.sum(0)
        if clip:
            dw, db = np.clip(dw, -clip, clip), np.clip(db, -clip, clip)
        w, b = w - rate * (dw + decay * w), b - rate * db
    return w, b


@pytest.mark.parametrize(
    ("trainers", "clip"), [(1, 0.0), (1, 2.0), (3, 2.0)], ids=["alone", "alone-clipped", "three-clipped"]
)
def test_a_pass_adds_gradients_up_and_clips_on_servers_only(
    demo: Path, tmp_path: Path, trainers: int, clip: float
) -> None:
    out = tmp_path / "out"
    job = loaded(demo, local=trainers == 1, lr=1, shuffle=0, method="sgd", rate=0.02, decay=0.1, clip=clip)
    with contextlib.ExitStack() as stack:
        on = stack.enter_context(server(trainers, (BOTH, BOTH))) if trainers > 1 else None
        train(job, out, on, init_model_path=zeros(tmp_path / "zeros"), local=trainers == 1)
    expected = regression(*v1demo.samples(tmp_path, "train"), trainers, 0.02, 0.1, clip if trainers > 1 else 0.0)
    w = read_parameter(out / "pass-00000" / "___fc_layer_0__.w0", v1demo.WORDS * 2).reshape(-1, 2)
    np.testing.assert_allclose(w, expected[0], rtol=1e-4, atol=1e-5)
    bias = read_parameter(out / "pass-00000" / "___fc_layer_0__.wbias", 2)
    np.testing.assert_allclose(bias, expected[1], rtol=1e-4, atol=1e-5)
    assert any("gradient_clipping_threshold has no effect with --local" in n for n in job.warnings) == (
        trainers == 1 and clip > 0
    )


def test_every_trainer_tests_on_the_whole_test_set(demo: Path, tmp_path: Path) -> None:
    """Trainers that tested on a part each would log its size."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("umiak.trainer")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with server(2) as on:
            events = train(loaded(demo), tmp_path / "out", on)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    tested = [line for line in lines if line.startswith(f" Test samples={v1demo.TEST} ")]
    assert len(tested) == 2 and len(set(tested)) == 1
    cost = next(event for event in events if isinstance(event, Pass)).test["cost"]
    assert f" cost={cost:g} " in tested[0]


def test_own_data_are_read_whole_by_each_trainer(demo: Path, tmp_path: Path) -> None:
    counts = []
    with server(2) as on:
        for own in (False, True):
            events = train(loaded(demo), tmp_path / str(own), on, own_data=own)
            counts.append(next(event for event in events if isinstance(event, Pass)).samples)
    assert counts == [v1demo.TRAIN, 2 * v1demo.TRAIN]


@pytest.mark.parametrize("method", ["sgd", "rmsprop", "adagrad"])
def test_a_table_trains_like_a_dense_parameter_where_the_rules_agree(demo: Path, tmp_path: Path, method: str) -> None:
    """Without regularisation, a row without a gradient does not move either way; RMSProp alone fades differently."""
    results = {}
    for sparse in (0, 1):
        out = tmp_path / f"out-{sparse}"
        job = loaded(demo, method=method, sparse=sparse, decay=0, shuffle=0)
        start_from = tmp_path / f"begin-{sparse}"
        _begin(job, start_from)
        with server(1, (BOTH,)) as on:
            train(job, out, on, init_model_path=start_from)
        results[sparse] = read_parameter(out / "pass-00000" / "words", v1demo.WORDS * 6)
    if method != "rmsprop":
        np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-6)
    assert np.isfinite(results[1]).all() and not np.array_equal(
        results[1], read_parameter(tmp_path / "begin-1" / "words", v1demo.WORDS * 6)
    )


def _begin(job: Loaded, directory: Path) -> None:
    directory.mkdir()
    shapes = job.config.shapes
    assert shapes is not None
    for name, shape in shapes.items():
        values = np.random.default_rng(len(name)).standard_normal(shape) / 3
        write_parameter(directory / name, values.size, [values])
    (directory / "done").touch()


def test_what_a_config_decides_and_what_it_is_warned_of(demo: Path) -> None:
    job = loaded(demo, is_async=1)
    assert settled(job, Settings()).mode == "async"
    assert isinstance(job.config.optimizer, V1Adam) and job.config.batch_size == 8
    assert job.warnings == ("L2 regularisation has no effect with adam, as in PaddlePaddle v1",)
    assert settled(loaded(demo, method="sgd"), Settings()).mode == "sync"
    assert loaded(demo, method="sgd").warnings == ()
    options = loaded(demo, method="sgd").config.parameters
    assert {name: option.l2 for name, option in options.items()} == {"___fc_layer_1__.wbias": 0.0}


def test_clipping_acts_without_servers_only_with_sparse_update_which_adam_refuses(demo: Path) -> None:
    alone = loaded(demo, local=True, sparse=1, method="sgd", clip=3)
    assert alone.config.optimizer.clip == 3.0 and alone.warnings == ()
    dense = loaded(demo, local=True, method="sgd", clip=3)
    assert dense.config.optimizer.clip is None and "no effect with --local" in dense.warnings[-1]
    with pytest.raises(InputError, match="'words' has sparse_update=True, which adam does not support"):
        loaded(demo, sparse=1)
    with pytest.raises(InputError, match="sparse_update=True, a momentum and a regularisation"):
        loaded(demo, sparse=1, method="momentum")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("data/train.list", None), r"trainer_config.demo.py:\d+: there is no train list 'data/train.list' in "),
        (("data/train.list", "\n"), "the list 'data/train.list' names no files"),
        (
            ("data/train.list", "data/train-0.txt\ndata/gone.txt\n"),
            r"process raised .*data/gone.txt.* at .*reader.py:\d+",
        ),
        (("reader.py", None), "there is no reader.py"),
        (("reader.py", "def process(): pass\n"), "reader.py does not decorate with @provider its 'process'"),
        (("reader.py", "x = 1\n"), "reader.py has no function 'process'"),
        (("reader.py", v1demo.PROVIDER.replace("len(words))", "3)")), "sample 0 of .*: slot 'word' has the id"),
        (
            ("reader.py", v1demo.PROVIDER.replace("len(words))", "99)")),
            "data layer 'word' has size 60, but reader::process gives .*99",
        ),
        (("trainer_config.demo.py", "from paddle.trainer_config_helpers import *\n)"), "trainer_config.demo.py:2"),
    ],
)
def test_bad_input_is_one_message_and_nothing_is_written(
    demo: Path, tmp_path: Path, change: tuple[str, str | None], message: str
) -> None:
    name, text = change
    if text is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text(text)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=message) as raised:
        from umiak.launch.local import train as launch

        launch(Settings(config=demo, save_dir=tmp_path / "out"), lambda event: None)
    assert "\n" not in str(raised.value) and sorted(tmp_path.rglob("*")) == before


JOB = ("--config", "trainer_config.demo.py", "--workers", "3", "--passes", "2", "--checkpoint_minutes", "0.005")


@contextlib.contextmanager
def directory(path: Path) -> Iterator[None]:
    with contextlib.chdir(path):
        yield


@pytest.mark.timeout(600)
@pytest.mark.parametrize("arguments", ["method=rmsprop,sparse=1", "method=rmsprop,average=0.15"])
def test_kill_9_changes_no_byte_of_a_v1_job(tmp_path: Path, arguments: str) -> None:
    """Tables with catch-up, sums of an average, dropout, a shuffled provider: all of it is replayed after a kill."""
    config = v1demo.write(tmp_path)
    slow = config.with_name("reader.py")
    text = slow.read_text().replace("        label, text", "        time.sleep(0.004)\n        label, text")
    slow.write_text(text.replace("init_hook=hook", "init_hook=hook, pool_size=40"))
    draw = random.Random(5)
    with directory(tmp_path):
        umiak("train", *JOB, "--config_args", arguments, "--out", "whole", timeout=300)
        process = start("train", *JOB, "--config_args", arguments, "--out", "cut", "--max_restarts", "50")
        try:
            killed = 0
            while process.poll() is None:
                time.sleep(draw.uniform(0.5, 2.0))
                below = [pid for pid in descendants(process.pid) if alive(pid)]
                if killed < 2 and below and any(Path("cut").glob("checkpoints/*/manifest.json")):
                    killed += 1
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(draw.choice(below), signal.SIGKILL)
            _, errors = process.communicate(timeout=60)
        finally:
            kill_tree(process.pid)
        assert process.returncode == 0, errors
        assert killed and snapshot_bytes(tmp_path / "cut") == snapshot_bytes(tmp_path / "whole")


def test_a_provider_that_reads_no_file_is_called_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the introduction of 2016: a list of one blank line, and a provider that makes its samples up."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "line.py").write_text(
        "from paddle.trainer.PyDataProvider2 import *\n\n@provider(input_types=[dense_vector(1), dense_vector(1)])\n"
        "def process(settings, name):\n    for i in xrange(200):\n        yield [i / 200.], [2 * i / 200. + 0.3]\n"
    )
    config = tmp_path / "trainer_config.py"
    config.write_text(
        "from paddle.trainer_config_helpers import *\nwith open('empty.list', 'w') as f:\n    f.writelines(' ')\n"
        "define_py_data_sources2('empty.list', None, 'line', 'process')\n"
        "settings(batch_size=12, learning_rate=0.02)\nx = data_layer('x', 1)\ny = data_layer('y', 1)\n"
        "p = fc_layer(input=x, size=1, act=LinearActivation(), param_attr=ParamAttr(name='w'), bias_attr=ParamAttr(name='b'))\n"
        "outputs(mse_cost(input=p, label=y))\n"
    )
    from umiak.launch.local import train as launch

    launch(Settings(config=config, local=True, num_passes=20, save_dir=tmp_path / "out"), lambda event: None)
    trained = {name: np.fromfile(tmp_path / "out" / "pass-00019" / name, "<f4", offset=16)[0] for name in ("w", "b")}
    assert trained["w"] == pytest.approx(2, abs=0.05) and trained["b"] == pytest.approx(0.3, abs=0.05)
