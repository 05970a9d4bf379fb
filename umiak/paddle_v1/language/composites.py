"""Helpers of the v1 language that are several layers: convolutions over text, LSTMs with their input layer, dropout.

The names of their inner layers are the original's: snapshots are found by them.
"""

from __future__ import annotations

from typing import Any

from umiak.paddle_v1.language.attributes import ExtraLayerAttribute
from umiak.paddle_v1.language.building import Output, current, helper
from umiak.paddle_v1.language.helpers import (
    addto_layer,
    concat_layer,
    fc_layer,
    first_seq,
    last_seq,
    lstmemory,
    pooling_layer,
)
from umiak.paddle_v1.language.mixed import (
    context_projection,
    full_matrix_projection,
    mixed_layer,
)


@helper
def sequence_conv_pool(
    input: Any,
    context_len: int,
    hidden_size: int,
    name: str | None = None,
    context_start: int | None = None,
    pool_type: Any = None,
    context_proj_layer_name: str | None = None,
    context_proj_param_attr: Any = False,
    fc_layer_name: str | None = None,
    fc_param_attr: Any = None,
    fc_bias_attr: Any = None,
    fc_act: Any = None,
    pool_bias_attr: Any = None,
    fc_attr: Any = None,
    context_attr: Any = None,
    pool_attr: Any = None,
) -> Output:
    """Each step with its neighbours, through one layer, pooled over the sequence."""
    builder = current()
    layer, length = builder.layer(input), builder.size(context_len, "context_len")
    name = builder.name(name, "sequence_conv_pooling")
    context = context_projection(
        input=layer, context_len=length, context_start=context_start, padding_attr=context_proj_param_attr
    )
    windows = mixed_layer(
        name=context_proj_layer_name or f"{name}_conv_proj",
        size=layer.size * length,
        input=[context],
        layer_attr=context_attr,
    )
    hidden = fc_layer(
        name=fc_layer_name or f"{name}_conv_fc",
        input=windows,
        size=hidden_size,
        act=fc_act,
        layer_attr=fc_attr,
        param_attr=fc_param_attr,
        bias_attr=fc_bias_attr,
    )
    return pooling_layer(
        name=name, input=hidden, pooling_type=pool_type, bias_attr=pool_bias_attr, layer_attr=pool_attr
    )


@helper
def simple_lstm(
    input: Any,
    size: int,
    name: str | None = None,
    reverse: bool = False,
    mat_param_attr: Any = None,
    bias_param_attr: Any = None,
    inner_param_attr: Any = None,
    act: Any = None,
    gate_act: Any = None,
    state_act: Any = None,
    mixed_layer_attr: Any = None,
    lstm_cell_attr: Any = None,
) -> Output:
    """An lstmemory with the matrix in front of it that it needs."""
    builder = current()
    name = builder.name(name, "lstm")
    transformed = mixed_layer(
        name=f"lstm_transform_{name}",
        size=4 * builder.size(size),
        input=[full_matrix_projection(input=input, param_attr=mat_param_attr)],
        layer_attr=mixed_layer_attr,
    )
    return lstmemory(
        name=name,
        input=transformed,
        reverse=reverse,
        bias_attr=bias_param_attr,
        param_attr=inner_param_attr,
        act=act,
        gate_act=gate_act,
        state_act=state_act,
        layer_attr=lstm_cell_attr,
    )


@helper
def bidirectional_lstm(
    input: Any,
    size: int,
    name: str | None = None,
    return_seq: bool = False,
    fwd_mat_param_attr: Any = None,
    fwd_bias_param_attr: Any = None,
    fwd_inner_param_attr: Any = None,
    fwd_act: Any = None,
    fwd_gate_act: Any = None,
    fwd_state_act: Any = None,
    fwd_mixed_layer_attr: Any = None,
    fwd_lstm_cell_attr: Any = None,
    bwd_mat_param_attr: Any = None,
    bwd_bias_param_attr: Any = None,
    bwd_inner_param_attr: Any = None,
    bwd_act: Any = None,
    bwd_gate_act: Any = None,
    bwd_state_act: Any = None,
    bwd_mixed_layer_attr: Any = None,
    bwd_lstm_cell_attr: Any = None,
    last_seq_attr: Any = None,
    first_seq_attr: Any = None,
    concat_attr: Any = None,
    concat_act: Any = None,
) -> Output:
    """One LSTM in each direction, side by side: their whole sequences, or where each of them ends."""
    name = current().name(name, "bidirectional_lstm")
    forward = simple_lstm(
        name=f"{name}_fw",
        input=input,
        size=size,
        mat_param_attr=fwd_mat_param_attr,
        bias_param_attr=fwd_bias_param_attr,
        inner_param_attr=fwd_inner_param_attr,
        act=fwd_act,
        gate_act=fwd_gate_act,
        state_act=fwd_state_act,
        mixed_layer_attr=fwd_mixed_layer_attr,
        lstm_cell_attr=fwd_lstm_cell_attr,
    )
    backward = simple_lstm(
        name=f"{name}_bw",
        input=input,
        size=size,
        reverse=True,
        mat_param_attr=bwd_mat_param_attr,
        bias_param_attr=bwd_bias_param_attr,
        inner_param_attr=bwd_inner_param_attr,
        act=bwd_act,
        gate_act=bwd_gate_act,
        state_act=bwd_state_act,
        mixed_layer_attr=bwd_mixed_layer_attr,
        lstm_cell_attr=bwd_lstm_cell_attr,
    )
    ends = [forward, backward]
    if not return_seq:
        ends = [
            last_seq(name=f"{name}_fw_last", input=forward, layer_attr=last_seq_attr),
            first_seq(name=f"{name}_bw_last", input=backward, layer_attr=first_seq_attr),
        ]
    return concat_layer(name=name, input=ends, layer_attr=concat_attr, act=concat_act)


@helper
def dropout_layer(input: Any, dropout_rate: float, name: str | None = None) -> Output:
    return addto_layer(
        name=current().name(name, "dropout"),
        input=input,
        bias_attr=False,
        layer_attr=ExtraLayerAttribute(drop_rate=dropout_rate),
    )
