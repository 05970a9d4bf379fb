"""`paddle merge_model`: the file that v1's C API reads, read here with the real Protocol Buffers."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests import v1demo
from tests.processes import umiak
from umiak.cli.paddle import run as paddle
from umiak.errors import InputError
from umiak.paddle_v1.formats import messages
from umiak.paddle_v1.formats.modelconfig import model_config
from umiak.paddle_v1.language import reading
from umiak.rundir.parameterfile import HEADER

CONFIG = "trainer_config.demo.py"
REPEATED = {
    "layers",
    "parameters",
    "input_layer_names",
    "output_layer_names",
    "evaluators",
    "sub_models",
    "inputs",
    "dims",
    "input_layers",
    "layer_names",
    "evaluator_names",
}
LSTM = """
from paddle.trainer_config_helpers import *
settings(batch_size=4, learning_rate=0.5, is_async=True)
words = data_layer(name='word', size=12)
hidden = bidirectional_lstm(input=embedding_layer(input=words, size=8), size=4)
with mixed_layer(size=24) as window:
    window += context_projection(input=hidden, context_len=3)
pooled = pooling_layer(input=window, pooling_type=SumPooling(), agg_level=AggregateLevel.EACH_SEQUENCE)
outputs(cos_sim(a=pooled, b=last_seq(input=window), scale=3), maxid_layer(input=pooled))
"""


def reader(name: str) -> type[Any]:
    """A class of the real library for a message, made from our table of fields."""
    kinds = descriptor_pb2.FieldDescriptorProto
    types = {"string": kinds.TYPE_STRING, "int": kinds.TYPE_INT64, "double": kinds.TYPE_DOUBLE, "bool": kinds.TYPE_BOOL}
    file = descriptor_pb2.FileDescriptorProto(name="v1.proto", package="v1", syntax="proto2")
    for message, fields in messages.FIELDS.items():
        made = file.message_type.add(name=message)
        for field, (number, kind) in fields.items():
            label = kinds.LABEL_REPEATED if field in REPEATED else kinds.LABEL_OPTIONAL
            one = made.field.add(name=field, number=number, label=label, type=types.get(kind, kinds.TYPE_MESSAGE))
            if kind not in types:
                one.type_name = f".v1.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1.{name}"))


def test_a_merged_file_holds_the_config_and_every_parameter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = v1demo.write(tmp_path / "demo").parent
    monkeypatch.chdir(directory)
    umiak("paddle", "train", f"--config={CONFIG}", "--num_passes=1", "--save_dir=out", "--config_args=rate=0.25")
    assert paddle(["merge_model", "--model_dir=out/pass-00000", "--model_file=merged"]) == 0
    data = Path("merged").read_bytes()
    length = struct.unpack_from("<q", data)[0]
    config = reader("TrainerConfig").FromString(data[8 : 8 + length])
    assert (config.opt_config.batch_size, config.opt_config.algorithm, config.opt_config.learning_rate) == (
        8,
        "sgd",
        0.25,
    )
    model = config.model_config
    assert [layer.type for layer in model.layers] == [
        *("data", "data", "mixed", "average", "fc", "fc", "multi-class-cross-entropy")
    ]
    assert model.layers[4].drop_rate == 0.2 and model.layers[5].inputs[0].input_parameter_name == "___fc_layer_1__.w0"
    at = 8 + length
    for parameter in model.parameters:
        stored = Path("out/pass-00000", parameter.name).read_bytes()
        assert data[at : at + len(stored)] == stored
        assert len(stored) == HEADER.size + 4 * parameter.size
        at += len(stored)
    assert at == len(data) and len(model.parameters) == 5
    with pytest.raises(InputError, match=r"paddle merge_model needs --model_dir=SNAPSHOT"):
        paddle(["merge_model", "--model_file=x"])
    with pytest.raises(InputError, match=r"nowhere is not a complete snapshot"):
        paddle(["merge_model", "--model_dir=nowhere", "--model_file=x"])


def test_layers_are_described_as_v1_described_them(tmp_path: Path) -> None:
    (tmp_path / "config.py").write_text(LSTM)
    graph = reading.load(tmp_path / "config.py", {}, check_data=False)
    model = reader("ModelConfig").FromString(messages.binary(model_config(graph), "ModelConfig"))
    layers = {layer.name: layer for layer in model.layers}
    forward, backward = (layers[f"__bidirectional_lstm_0___{way}"] for way in ("fw", "bw"))
    assert (forward.type, forward.active_type, forward.active_gate_type, forward.active_state_type) == (
        *("lstmemory", "tanh", "sigmoid", "tanh"),
    )
    assert not forward.reversed and backward.reversed
    window = layers["__mixed_0__"].inputs[0].proj_conf
    assert (window.type, window.context_start, window.context_length, window.trainable_padding) == (
        "context",
        -1,
        3,
        True,
    )
    pooled = layers["__seq_pooling_0__"]
    assert (pooled.type, pooled.average_strategy, pooled.trans_type, pooled.active_type) == (
        "average",
        "sum",
        "seq",
        "linear",
    )
    last = layers["__last_seq_0__"] if "__last_seq_0__" in layers else layers["__last_seq_1__"]
    assert (last.type, last.select_first, last.seq_pool_stride) == ("seqlastins", False, -1)
    assert layers["__cos_sim_0__"].type == "cos" and layers["__cos_sim_0__"].cos_scale == 3
    parameters = {parameter.name: parameter for parameter in model.parameters}
    recurrent = parameters[f"_{forward.name}.w0"]
    assert list(recurrent.dims) == [4, 4, 4] and recurrent.size == 64 and recurrent.initial_smart
    assert list(parameters[f"_{forward.name}.wbias"].dims) == [1, 28]
    assert list(model.input_layer_names) == ["word"] and model.sub_models[0].name == "root"
