"""`paddle train --job=…` and the smaller commands of `paddle`: what the scripts of 2016 get from them."""

from __future__ import annotations

import logging
import re
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests import v1demo
from tests.processes import umiak
from tests.v1command import installed, shell
from umiak.cli.paddle import COMMANDS
from umiak.cli.paddle import run as paddle
from umiak.data import provider
from umiak.errors import InputError
from umiak.evaluation import checkgrad, modeltests, timing
from umiak.paddle_v1.formats import diagram
from umiak.paddle_v1.language import reading
from umiak.spec.config import Config
from umiak.spec.flags import parse
from umiak.spec.load import Loaded
from umiak.spec.optim import SGD

CONFIG = "trainer_config.demo.py"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("bin"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, path: Path) -> Path:
    """A directory with two passes in ./output."""
    directory = tmp_path_factory.mktemp("trained") / "demo"
    v1demo.write(directory)
    said = shell(f"paddle train --config={CONFIG} --num_passes=2 --save_dir=./output", path, directory)
    (directory / "train.log").write_text(said)
    return directory


def lines(text: str, begin: str) -> list[str]:
    """What was logged with this beginning."""
    return [line.partition("] ")[2].strip() for line in text.splitlines() if f"]  {begin}" in line]


def test_a_snapshot_a_list_and_a_range_of_passes_are_tested_and_score_what_training_said(
    path: Path, trained: Path
) -> None:
    said = lines((trained / "train.log").read_text(), "Test ")
    expected = [line.replace("Test ", "").replace("cost=", "AvgCost=") for line in said]
    (trained / "model.list").write_text("output/pass-00001\n\noutput/pass-00000\n")
    test = f"paddle train --job=test --config={CONFIG}"
    for flags, order in (
        ("--save_dir=./output --test_pass=0 --num_passes=2", [(0, 0), (1, 1)]),
        ("--model_list=./model.list --use_gpu=false --trainer_count=1", [(0, 1), (1, 0)]),
        ("--init_model_path=output/pass-00001", [(0, 1)]),
        ("--save_dir=./output --test_pass=0 --num_passes=2 --saving_period=2", [(0, 0)]),
    ):
        found = lines(shell(f"{test} {flags}", path, trained), "Pass=")
        assert found == [f"Pass={number} {expected[model]}" for number, model in order]


def test_a_pass_that_is_not_there_is_named_and_test_wait_waits_for_it(path: Path, trained: Path) -> None:
    test = f"paddle train --job=test --config={CONFIG} --save_dir=./output --test_pass=1 --num_passes=3"
    text = shell(test, path, trained, code=2)
    assert len(lines(text, "Pass=")) == 1
    assert text.splitlines()[-1].startswith("paddle: output has no complete snapshot of pass 2")
    text = shell(
        f"(until grep -q 'Waiting for parameters of pass 2' test.log; do sleep 0.1; done; cp -r output/pass-00001 output/new; "
        f"mv output/new output/pass-00002) & {test} --test_wait=1 2>&1 | tee test.log; rm -r output/pass-00002",
        path,
        trained,
    )
    assert len(lines(text, "Pass=")) == 2


def test_outputs_are_written_as_v1_wrote_them(path: Path, trained: Path) -> None:
    """A line for each sample, every output ends with a semicolon, numbers have six digits."""
    config = (trained / CONFIG).read_text()
    config = config.replace(
        "outputs(classification_cost(input=output, label=label))", "outputs(maxid_layer(output), output)"
    )
    (trained / "predict.py").write_text(config)
    text = shell(
        "set -e\npaddle train --config=predict.py --use_gpu=false --job=test --init_model_path=output/pass-00001 "
        "--predict_output_dir=. 2>&1 | tee predict.log\nmv rank-00000 result.txt",
        path,
        trained,
    )
    assert lines(text, "Pass=") == [f"Pass=0 samples={v1demo.TEST} AvgCost=0 Eval:"]
    rows = (trained / "result.txt").read_text().splitlines()
    assert len(rows) == v1demo.TEST
    for row in rows:
        label, scores, end = row.split(";")
        assert not end
        values = [float(word) for word in scores.split()]
        assert int(label) == max(range(2), key=values.__getitem__)
        assert all(len(word.lstrip("0.")) <= 6 or "e" in word for word in scores.split())
    (trained / "predict.py").unlink()


def test_a_script_that_knows_no_version_has_it_from_the_environment(path: Path, trained: Path) -> None:
    (trained / "rating.py").write_text(
        "from paddle.trainer_config_helpers import *\nsettings(batch_size=2)\na = data_layer('a', 3)\n"
        "outputs(mse_cost(input=cos_sim(a=a, b=a), label=data_layer('b', 1)))\n"
    )
    diagram = "paddle make_diagram rating.py rating.dot; cat rating.dot; rm rating.dot"
    assert "__mse_cost_0__" in shell(diagram, path, trained)
    assert "__regression_cost_0__" in shell(diagram, path, trained, UMIAK_PADDLE_VERSION="0.9")
    train = f"paddle train --config={CONFIG}"
    assert "UMIAK_PADDLE_VERSION=0.8 is unknown" in shell(train, path, trained, code=2, UMIAK_PADDLE_VERSION="0.8")
    (trained / "rating.py").unlink()


def test_a_test_without_a_model_says_how_to_name_one() -> None:
    with pytest.raises(InputError, match=r"--init_model_path=DIR, --model_list=FILE, or --save_dir=DIR --test_pass=N"):
        list(modeltests.models(parse("paddle train", ["--job=test"])))


@pytest.mark.parametrize("feed", [0, 1])
def test_time_says_what_a_batch_takes_and_writes_nothing(path: Path, trained: Path, feed: int) -> None:
    before = sorted(trained.iterdir())
    command = (
        f"paddle train --job=time --config={CONFIG} --test_period=20 --num_passes=1 --feed_data={feed} --log_period=10"
    )
    text = shell(command, path, trained)
    assert "Burning time end." in text
    figures = re.findall(r"Stat=(\w+) +total=(\S+) +avg=(\S+) +max=(\S+) +min=(\S+) +count=(\d+)", text)
    assert {name: int(count) for name, *_, count in figures} == {"FwdBwd": 20} | ({"GetData": 20} if feed else {})
    for _, total, average, most, least, count in figures:
        assert float(total) == pytest.approx(float(average) * int(count), rel=1e-3)
        assert 0 < float(least) <= float(average) <= float(most)
    assert sorted(trained.iterdir()) == before


def test_time_needs_to_know_how_many_batches(trained: Path) -> None:
    from umiak.trainer.task import Assignment

    with pytest.raises(InputError, match="--job=time needs --test_period=N"):
        timing.run(Loaded(_config(_Right)), parse("paddle train", ["--job=time"]), Assignment())


@pytest.mark.parametrize("arguments", ["method=adam", "sparse=1,method=adagrad", "lr=1"])
def test_the_gradients_of_a_config_are_right(path: Path, trained: Path, arguments: str) -> None:
    text = shell(f"paddle train --job=checkgrad --config={CONFIG} --config_args={arguments}", path, trained)
    found = re.findall(
        r"(\S+) *step=.* true_delta=\S+ +analytic_delta=\S+ +diff=(\S+)", text.replace("true_delta", " true_delta")
    )
    assert len(found) == (2 if arguments == "lr=1" else 5)
    assert all(abs(float(difference)) < 1e-4 for _, difference in found) and "***" not in text


class _Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        return ctx.factor * x**2 * grad, None


class _Right(torch.nn.Module):
    factor = 3.0

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((4,), 0.5))

    def forward(self, batch: Any) -> torch.Tensor:
        return (_Cube.apply(self.weight, self.factor) * batch["x"]).sum(1)


class _Wrong(_Right):
    factor = 2.0


def _config(model: type[torch.nn.Module]) -> Config:
    source = provider(lambda: [{"x": np.arange(4.0)}] * 8)
    return Config(model=model, train=source, loss=lambda output, batch: output.mean(), optimizer=SGD(0.1), batch_size=8)


def test_a_wrong_gradient_is_found(caplog: pytest.LogCaptureFixture) -> None:
    settings = parse("paddle train", ["--job=checkgrad"])
    with caplog.at_level(logging.INFO, "umiak.trainer"):
        assert checkgrad.run(Loaded(_config(_Right)), settings) < 1e-6
        assert checkgrad.run(Loaded(_config(_Wrong)), settings) == pytest.approx(0.5, rel=1e-3)


def test_a_diagram_has_the_layers_parameters_and_types_of_v1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = v1demo.write(tmp_path / "demo")
    monkeypatch.chdir(config.parent)
    assert paddle(["make_diagram", CONFIG, "model.dot", "shuffle=0"]) == 0
    text = Path("model.dot").read_text()
    assert text == diagram.dot(reading.load(config, {"shuffle": "0"}))
    assert text.splitlines() == [
        "digraph graphname {",
        "node [width=0.375,height=0.25];",
        'l0 [label="word type=data", shape=box];',
        'l1 [label="label type=data", shape=box];',
        'l2 [label="__embedding_0__ type=mixed", shape=box];',
        'l3 [label="__seq_pooling_0__ type=average\\lact=linear ", shape=box];',
        'l4 [label="__fc_layer_0__ type=fc\\lact=tanh bias=___fc_layer_0__.wbias ", shape=box];',
        'l5 [label="__fc_layer_1__ type=fc\\lact=softmax bias=___fc_layer_1__.wbias ", shape=box];',
        'l6 [label="__cost_0__ type=multi-class-cross-entropy", shape=box];',
        'l0 -> l2 [label="words"];',
        'l2 -> l3 [label=""];',
        'l3 -> l4 [label="___fc_layer_0__.w0"];',
        'l4 -> l5 [label="___fc_layer_1__.w0"];',
        'l5 -> l6 [label=""];',
        'l1 -> l6 [label=""];',
        "}",
    ]
    with pytest.raises(InputError, match="write paddle make_diagram CONFIG_FILE DOT_FILE"):
        paddle(["make_diagram", CONFIG])


def test_install_puts_paddle_where_it_is_told_and_never_over_another_program(tmp_path: Path) -> None:
    other = tmp_path / "paddle"
    other.write_text("#!/bin/sh\necho the real one\n")
    assert "is another program and is left alone" in umiak("paddle", "install", tmp_path, code=2)
    assert other.read_text().endswith("the real one\n")
    other.unlink()
    for _ in range(2):
        assert umiak("paddle", "install", tmp_path).strip() == str(other)
    assert other.stat().st_mode & stat.S_IXUSR
    said = shell("paddle version; paddle usage -l x -e 0 -n y; paddle", tmp_path, tmp_path)
    assert said.startswith("PaddlePaddle 0.10.0") and "with_double: OFF" in said
    assert "nothing is sent anywhere" in said and all(f"    {command} " in said for command in COMMANDS)
    assert "did you mean train?" in shell("paddle trian", tmp_path, tmp_path, code=2)
    assert "is not a directory" in umiak("paddle", "install", tmp_path / "nowhere", code=2)
    second = tmp_path / "second"
    second.mkdir()
    install = f"{sys.executable} -m umiak.cli.main paddle install"
    assert f"warning: {other} comes first on your PATH" in shell(f"{install} second", tmp_path, tmp_path)
    assert "warning: second is not on your PATH" in shell(f"PATH=/nowhere {install} second", tmp_path, tmp_path)
