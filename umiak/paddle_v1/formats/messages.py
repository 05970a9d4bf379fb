"""The messages in which v1 kept a config (Protocol Buffers): the fields that we fill, with their numbers, and their bytes.

A message is a list of fields in the order of their numbers; one that repeats is there several times. Knows no layers: what a
config says in them is umiak/paddle_v1/formats/modelconfig.py. Numbers are those of proto/*.proto at v0.10.0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

Message = Sequence[tuple[str, Any]]
"""Names and values: str, bool, int, float, or another message."""

FIELDS: dict[str, dict[str, tuple[int, str]]] = {
    "TrainerConfig": {
        "model_config": (1, "ModelConfig"),
        "data_config": (2, "DataConfig"),
        "opt_config": (3, "OptimizationConfig"),
        "test_data_config": (4, "DataConfig"),
        "save_dir": (6, "string"),
        "start_pass": (8, "int"),
    },
    "DataConfig": {
        "type": (1, "string"),
        "files": (3, "string"),
        "async_load_data": (12, "bool"),
        "for_test": (14, "bool"),
        "load_data_module": (21, "string"),
        "load_data_object": (22, "string"),
        "load_data_args": (23, "string"),
        "data_ratio": (25, "int"),
        "is_main_data": (26, "bool"),
        "usage_ratio": (27, "double"),
    },
    "OptimizationConfig": {
        "batch_size": (3, "int"),
        "algorithm": (4, "string"),
        "learning_rate": (7, "double"),
        "learning_rate_decay_a": (8, "double"),
        "learning_rate_decay_b": (9, "double"),
        "l1weight": (10, "double"),
        "l2weight": (11, "double"),
        "c1": (12, "double"),
        "backoff": (13, "double"),
        "owlqn_steps": (14, "int"),
        "max_backoff": (15, "int"),
        "l2weight_zero_iter": (17, "int"),
        "average_window": (18, "double"),
        "max_average_window": (19, "int"),
        "learning_method": (23, "string"),
        "ada_epsilon": (24, "double"),
        "do_average_in_cpu": (25, "bool"),
        "ada_rou": (26, "double"),
        "learning_rate_schedule": (27, "string"),
        "delta_add_rate": (28, "double"),
        "use_sparse_remote_updater": (30, "bool"),
        "shrink_parameter_value": (32, "double"),
        "adam_beta1": (33, "double"),
        "adam_beta2": (34, "double"),
        "adam_epsilon": (35, "double"),
        "learning_rate_args": (36, "string"),
        "async_lagged_grad_discard_ratio": (37, "double"),
    },
    "ModelConfig": {
        "type": (1, "string"),
        "layers": (2, "LayerConfig"),
        "parameters": (3, "ParameterConfig"),
        "input_layer_names": (4, "string"),
        "output_layer_names": (5, "string"),
        "evaluators": (6, "EvaluatorConfig"),
        "sub_models": (8, "SubModelConfig"),
    },
    "LayerConfig": {
        "name": (1, "string"),
        "type": (2, "string"),
        "size": (3, "int"),
        "active_type": (4, "string"),
        "inputs": (5, "LayerInputConfig"),
        "bias_parameter_name": (6, "string"),
        "num_filters": (7, "int"),
        "drop_rate": (10, "double"),
        "reversed": (13, "bool"),
        "active_gate_type": (14, "string"),
        "active_state_type": (15, "string"),
        "coeff": (26, "double"),
        "average_strategy": (27, "string"),
        "slope": (32, "double"),
        "intercept": (33, "double"),
        "cos_scale": (34, "double"),
        "select_first": (40, "bool"),
        "trans_type": (41, "string"),
        "seq_pool_stride": (53, "int"),
    },
    "LayerInputConfig": {
        "input_layer_name": (1, "string"),
        "input_parameter_name": (2, "string"),
        "proj_conf": (6, "ProjectionConfig"),
    },
    "ProjectionConfig": {
        "type": (1, "string"),
        "name": (2, "string"),
        "input_size": (3, "int"),
        "output_size": (4, "int"),
        "context_start": (5, "int"),
        "context_length": (6, "int"),
        "trainable_padding": (7, "bool"),
        "offset": (11, "int"),
    },
    "ParameterConfig": {
        "name": (1, "string"),
        "size": (2, "int"),
        "learning_rate": (3, "double"),
        "momentum": (4, "double"),
        "initial_mean": (5, "double"),
        "initial_std": (6, "double"),
        "decay_rate": (7, "double"),
        "decay_rate_l1": (8, "double"),
        "dims": (9, "int"),
        "initial_strategy": (11, "int"),
        "initial_smart": (12, "bool"),
        "sparse_remote_update": (16, "bool"),
        "gradient_clipping_threshold": (17, "double"),
        "is_static": (18, "bool"),
        "sparse_update": (22, "bool"),
    },
    "EvaluatorConfig": {
        "name": (1, "string"),
        "type": (2, "string"),
        "input_layers": (3, "string"),
        "top_k": (13, "int"),
    },
    "SubModelConfig": {
        "name": (1, "string"),
        "layer_names": (2, "string"),
        "input_layer_names": (3, "string"),
        "output_layer_names": (4, "string"),
        "evaluator_names": (5, "string"),
        "is_recurrent_layer_group": (6, "bool"),
    },
}
_VARINT, _EIGHT_BYTES, _LENGTH = 0, 1, 2


def binary(message: Message, kind: str) -> bytes:
    """The message as Protocol Buffers write it."""
    return b"".join(_field(*FIELDS[kind][name], value) for name, value in message)


def _field(number: int, kind: str, value: Any) -> bytes:
    if kind in ("int", "bool"):
        return _varint(number << 3 | _VARINT) + _varint(int(value))
    if kind == "double":
        return _varint(number << 3 | _EIGHT_BYTES) + struct.pack("<d", value)
    # The strings of v1 were bytes: ours hold one in each character.
    data = value.encode("latin-1", errors="replace") if kind == "string" else binary(value, kind)
    return _varint(number << 3 | _LENGTH) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    """Seven bits at a time, the lowest first; a negative number is taken modulo 2⁶⁴."""
    value %= 1 << 64
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
