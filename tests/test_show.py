"""`umiak show`: what it tells of a model is what a job would do with it, for v1 and native configs."""

from __future__ import annotations

from pathlib import Path

import pytest

from umiak.cli.main import main
from umiak.show import modules
from umiak.show.picture import layout
from umiak.spec.outline import Outline, Part, Variable
from umiak.spec.settings import Settings

V1 = """from paddle.trainer_config_helpers import *
settings(batch_size=10)
words = data_layer('words', get_config_arg('n', int, 50))
vectors = embedding_layer(input=words, size=8, param_attr=ParamAttr(sparse_update=True))
best = pooling_layer(input=vectors)
output = fc_layer(input=best, size=2, act=SoftmaxActivation())
outputs(classification_cost(input=output, label=data_layer('label', 2)))
"""
NATIVE = """import torch
import umiak
from umiak.data import Columns
import numpy as np

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = umiak.nn.SparseEmbedding(4, bag="sum")
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, batch):
        return self.layer(self.table(batch["ids"]))

data = Columns({"ids": np.zeros((1, 1), np.int64)})
config = umiak.Config(model=Model, train=data, loss=lambda output, batch: output.sum(), optimizer=umiak.SGD(lr=1.0))
"""


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> object:
    """Writes a config, shows it, and gives the lines that were printed."""
    monkeypatch.chdir(tmp_path)

    def show(source: str, *flags: str) -> list[list[str]]:
        (tmp_path / "some.py").write_text(source)
        assert main(["show", "some.py", *flags]) == 0
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    return show


def test_a_v1_model_is_told_and_drawn(shown: object, tmp_path: Path) -> None:
    lines = shown(V1, "--workers=2", "--ports_num_for_sparse=1", "--config_args=n=70000")  # type: ignore[operator]
    assert ["__embedding_0__", "table", "8", "words"] in lines
    assert ["__fc_layer_0__", "fc,", "softmax", "2", "__seq_pooling_0__"] in lines
    assert ["__cost_0__", "cross_entropy", "1", "__fc_layer_0__", "label"] in lines
    assert ["___fc_layer_0__.w0", "dense", "8", "×", "2", "16", "0.0", "1.0"] in lines
    assert ["___embedding_0__.w0", "table", "70,000", "×", "8", "560,000", "0.1", "1.1"] in lines
    assert ["0.1", "0", "___embedding_0__.w0"] in lines
    assert lines[-1] == ["some.png"]
    assert (tmp_path / "some.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["some.png", "some.py"]


def test_a_small_model_is_on_one_service(shown: object) -> None:
    lines = shown(V1, "--workers=2")  # type: ignore[operator]
    assert ["___fc_layer_0__.w0", "dense", "8", "×", "2", "16", "0.0"] in lines
    assert ["___embedding_0__.w0", "table", "50", "×", "8", "400", "0.0"] in lines


def test_a_native_model_is_told_and_drawn(shown: object, tmp_path: Path) -> None:
    lines = shown(NATIVE, "--workers=1", "--output=drawn.png")  # type: ignore[operator]
    assert ["table", "SparseEmbedding", "open", "×", "4", "model"] in lines
    assert ["layer", "Linear", "3", "×", "4", "+", "3", "model"] in lines
    assert ["table.weight", "table", "open", "×", "4", "0.0"] in lines
    assert ["0.0", "15", "layer.weight,", "layer.bias", "table.weight"] in lines
    assert (tmp_path / "drawn.png").stat().st_size > 5_000


def test_a_picture_may_go_into_a_directory_that_does_not_exist_yet(
    shown: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown(NATIVE, "--workers=1", "--output=pictures/of/it.png")  # type: ignore[operator]
    assert (tmp_path / "pictures" / "of" / "it.png").is_file()
    assert main(["show", "some.py", "--output=some.py/it.png"]) == 2
    assert "cannot write some.py/it.png" in capsys.readouterr().err


def test_servers_apart_and_one_process(shown: object) -> None:
    lines = shown(V1, "--workers=5", "--servers=2", "--ports_num=2")  # type: ignore[operator]
    assert {line[0] for line in lines if line and line[0][0] in "01234"} == {"0.0", "0.1", "1.0", "1.1"}
    lines = shown(V1, "--local")  # type: ignore[operator]
    assert not any(line[:1] == ["service"] for line in lines)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("from paddle.trainer_config_helpers import *\nimg_conv_layer()\n", "some.py:2: img_conv_layer"),
        ("x = 1\n", "does not define `config`"),
        ("import paddle.fluid\n", "some.py:1: umiak has no paddle.fluid"),
        (NATIVE.replace("self.layer =", "self.layer = 1 / 0 #"), "raised ZeroDivisionError: division by zero at "),
        (NATIVE.replace("model=Model", "model=int"), "Config.model must build a torch.nn.Module, not int"),
    ],
)
def test_a_config_that_does_not_load_is_one_line_and_no_picture(
    source: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some.py").write_text(source)
    assert main(["show", "some.py"]) == 2
    printed = capsys.readouterr().err
    assert said in printed and printed.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["some.py"]


def test_a_missing_config_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "nowhere.py"]) == 2
    assert "nowhere.py: No such file" in capsys.readouterr().err


def test_services_hold_every_value_once() -> None:
    variables = (
        Variable("a", (100, 7)),
        Variable("b", (3,)),
        Variable("fixed", (9,), "fixed"),
        Variable("t", (None, 4), "table"),
    )
    held = modules.held(variables, Settings(workers=3, ports_num=2, ports_num_for_sparse=1))
    assert [each.name for each in held] == ["0.0", "0.1", "0.2", "1.0", "1.1", "1.2", "2.0", "2.1", "2.2"]
    assert sum(each.values for each in held) == 703
    assert [each.name for each in held if each.tables] == ["0.2", "1.2", "2.2"]
    told = Outline("x", (), variables, held)
    assert told.homes("a") == ("0.0", "0.1", "1.0", "1.1", "2.0", "2.1")
    assert told.homes("b") == ("2.1",)
    assert told.homes("fixed") == ()


def test_a_part_is_drawn_below_what_it_reads_and_on_no_other() -> None:
    parts = (
        Part("a", "data"),
        Part("b", "fc", inputs=("a",)),
        Part("c", "fc", inputs=("a",)),
        Part("d", "addto", inputs=("b", "c")),
        Part("late", "data"),
        Part("cost", "cost", inputs=("d", "late")),
    )
    places = layout(parts)
    for part in parts:
        assert all(places[name][1] < places[part.name][1] for name in part.inputs)
    assert places["late"][1] == places["cost"][1] - 1
    assert len(set(places.values())) == len(parts)
