"""`paddle dump_config`: a config as the message that v1 made of it, in the text format of Protocol Buffers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import umiak
from umiak.cli.paddle import run as paddle
from umiak.errors import InputError

SMALL = """
from paddle.trainer_config_helpers import *
settings(batch_size=10, learning_rate=get_config_arg('rate', float, 0.5), learning_method=AdamOptimizer(beta1=0.8),
         regularization=L2Regularization(8e-4), model_average=ModelAverage(0.5, max_average_window=100))
define_py_data_sources2('train.list', None, module='reader', obj='process')
d = data_layer(name='d', size=3)
unused = 2 * d
out = fc_layer(input=d, size=2, act=SoftmaxActivation(), bias_attr=ParamAttr(name='b"1', learning_rate=2, initial_std=0.))
outputs(classification_cost(input=out, label=data_layer(name='label', size=2)))
"""

MODEL = r"""type: "nn"
layers {
  name: "d"
  type: "data"
  size: 3
  active_type: ""
}
layers {
  name: "__slope_intercept_layer_0__"
  type: "slope_intercept"
  size: 3
  active_type: ""
  inputs {
    input_layer_name: "d"
  }
  slope: 2
  intercept: 0.0
}
layers {
  name: "__fc_layer_0__"
  type: "fc"
  size: 2
  active_type: "softmax"
  inputs {
    input_layer_name: "d"
    input_parameter_name: "___fc_layer_0__.w0"
  }
  bias_parameter_name: "b\"1"
}
layers {
  name: "label"
  type: "data"
  size: 2
  active_type: ""
}
layers {
  name: "__cost_0__"
  type: "multi-class-cross-entropy"
  size: 1
  active_type: ""
  inputs {
    input_layer_name: "__fc_layer_0__"
  }
  inputs {
    input_layer_name: "label"
  }
  coeff: 1.0
}
parameters {
  name: "___fc_layer_0__.w0"
  size: 6
  initial_mean: 0.0
  initial_std: 0.57735026919
  decay_rate: 0.0008
  dims: 3
  dims: 2
  initial_strategy: 0
  initial_smart: true
}
parameters {
  name: "b\"1"
  size: 2
  learning_rate: 2.0
  initial_mean: 0.0
  initial_std: 0.0
  decay_rate: 0.0008
  dims: 1
  dims: 2
  initial_strategy: 0
  initial_smart: false
}
input_layer_names: "d"
input_layer_names: "label"
output_layer_names: "__cost_0__"
evaluators {
  name: "classification_error_evaluator"
  type: "classification_error"
  input_layers: "__fc_layer_0__"
  input_layers: "label"
}
sub_models {
  name: "root"
  layer_names: "d"
  layer_names: "__slope_intercept_layer_0__"
  layer_names: "__fc_layer_0__"
  layer_names: "label"
  layer_names: "__cost_0__"
  input_layer_names: "d"
  input_layer_names: "label"
  output_layer_names: "__cost_0__"
  evaluator_names: "classification_error_evaluator"
  is_recurrent_layer_group: false
}

"""

REST = """data_config {
  type: "py2"
  files: "train.list"
  async_load_data: false
  for_test: false
  load_data_module: "reader"
  load_data_object: "process"
  load_data_args: ""
  data_ratio: 1
  is_main_data: true
  usage_ratio: 1.0
}
opt_config {
  batch_size: 10
  algorithm: "sgd"
  learning_rate: 0.001
  learning_rate_decay_a: 0.0
  learning_rate_decay_b: 0.0
  l1weight: 0.1
  l2weight: 0.0
  c1: 0.0001
  backoff: 0.5
  owlqn_steps: 10
  max_backoff: 5
  l2weight_zero_iter: 0
  average_window: 0.5
  max_average_window: 100
  learning_method: "adam"
  ada_epsilon: 1e-06
  do_average_in_cpu: false
  ada_rou: 0.95
  learning_rate_schedule: "poly"
  delta_add_rate: 1.0
  shrink_parameter_value: 0
  adam_beta1: 0.8
  adam_beta2: 0.999
  adam_epsilon: 1e-08
  learning_rate_args: ""
  async_lagged_grad_discard_ratio: 1.5
}
save_dir: "./output/model"
start_pass: 0

"""


def test_the_model_is_printed_with_every_layer_the_config_has(tmp_path: Path) -> None:
    (tmp_path / "config.py").write_text(SMALL)
    assert umiak("paddle", "dump_config", tmp_path / "config.py") == MODEL


def test_the_whole_config_has_its_data_and_settings_and_takes_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.py").write_text(SMALL)
    assert paddle(["dump_config", str(tmp_path / "config.py"), "rate=0.001", "--whole"]) == 0
    indented = "".join(f"  {line}\n" for line in MODEL.strip().splitlines())
    assert capsys.readouterr().out == f"model_config {{\n{indented}}}\n{REST}"


def test_windows_of_sequences_are_named_only_in_the_version_that_has_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "from paddle.trainer_config_helpers import *\nsettings(batch_size=1)\n"
    (tmp_path / "config.py").write_text(source + "outputs(last_seq(input=data_layer(name='d', size=3)))\n")
    for version, named in (("0.9", False), ("0.10", True)):
        monkeypatch.setenv("UMIAK_PADDLE_VERSION", version)
        paddle(["dump_config", str(tmp_path / "config.py")])
        assert ("seq_pool_stride: -1" in capsys.readouterr().out) == named


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "write paddle dump_config CONFIG_FILE"),
        (["nothing.py"], "there is no config nothing.py"),
        (["config.py", "rate"], "'rate' is not a list of name=value"),
        (["config.py", "--all"], "write paddle dump_config CONFIG_FILE"),
    ],
)
def test_what_cannot_be_dumped_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    (tmp_path / "config.py").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=said):
        paddle(["dump_config", *words])
