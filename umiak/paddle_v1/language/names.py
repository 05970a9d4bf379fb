"""All names a v1 config can import: those that work here, and the others, which say so when they are used."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

from umiak.paddle_v1.language import arithmetic
from umiak.paddle_v1.language.arithmetic import repeat_layer, scaling_layer, slope_intercept_layer
from umiak.paddle_v1.language.attributes import (
    AbsActivation,
    AggregateLevel,
    AvgPooling,
    BaseActivation,
    BasePoolingType,
    ExpActivation,
    ExtraLayerAttribute,
    LinearActivation,
    LogActivation,
    MaxPooling,
    ParameterAttribute,
    ReluActivation,
    SigmoidActivation,
    SoftmaxActivation,
    SquareActivation,
    SumPooling,
    TanhActivation,
)
from umiak.paddle_v1.language.building import Output, current
from umiak.paddle_v1.language.composites import bidirectional_lstm, dropout_layer, sequence_conv_pool, simple_lstm
from umiak.paddle_v1.language.declarations import define_py_data_sources2, get_config_arg, inputs, outputs
from umiak.paddle_v1.language.helpers import (
    addto_layer,
    classification_cost,
    classification_error_evaluator,
    concat_layer,
    cos_sim,
    data_layer,
    fc_layer,
    first_seq,
    last_seq,
    lstmemory,
    maxid_layer,
    mse_cost,
    pooling_layer,
)
from umiak.paddle_v1.language.mixed import (
    context_projection,
    dotmul_projection,
    embedding_layer,
    full_matrix_projection,
    identity_projection,
    mixed_layer,
    scaling_projection,
    table_projection,
    trans_full_matrix_projection,
)
from umiak.paddle_v1.language.optimisation import (
    AdaDeltaOptimizer,
    AdaGradOptimizer,
    AdamaxOptimizer,
    AdamOptimizer,
    BaseRegularization,
    BaseSGDOptimizer,
    DecayedAdaGradOptimizer,
    L2Regularization,
    ModelAverage,
    MomentumOptimizer,
    RMSPropOptimizer,
    settings,
)

_HERE: dict[str, Any] = {
    "AbsActivation": AbsActivation,
    "AdaDeltaOptimizer": AdaDeltaOptimizer,
    "AdaGradOptimizer": AdaGradOptimizer,
    "AdamOptimizer": AdamOptimizer,
    "AdamaxOptimizer": AdamaxOptimizer,
    "AggregateLevel": AggregateLevel,
    "AvgPooling": AvgPooling,
    "BaseActivation": BaseActivation,
    "BasePoolingType": BasePoolingType,
    "BaseRegularization": BaseRegularization,
    "BaseSGDOptimizer": BaseSGDOptimizer,
    "DecayedAdaGradOptimizer": DecayedAdaGradOptimizer,
    "ExpActivation": ExpActivation,
    "ExtraAttr": ExtraLayerAttribute,
    "ExtraLayerAttribute": ExtraLayerAttribute,
    "IdentityActivation": LinearActivation,
    "L2Regularization": L2Regularization,
    "LayerOutput": Output,
    "LinearActivation": LinearActivation,
    "LogActivation": LogActivation,
    "MaxPooling": MaxPooling,
    "ModelAverage": ModelAverage,
    "MomentumOptimizer": MomentumOptimizer,
    "Optimizer": BaseSGDOptimizer,
    "ParamAttr": ParameterAttribute,
    "ParameterAttribute": ParameterAttribute,
    "RMSPropOptimizer": RMSPropOptimizer,
    "ReluActivation": ReluActivation,
    "SigmoidActivation": SigmoidActivation,
    "SoftmaxActivation": SoftmaxActivation,
    "SquareActivation": SquareActivation,
    "SumPooling": SumPooling,
    "TanhActivation": TanhActivation,
    "addto_layer": addto_layer,
    "bidirectional_lstm": bidirectional_lstm,
    "classification_cost": classification_cost,
    "classification_error_evaluator": classification_error_evaluator,
    "concat_layer": concat_layer,
    "context_projection": context_projection,
    "cos_sim": cos_sim,
    "data_layer": data_layer,
    "define_py_data_sources2": define_py_data_sources2,
    "dotmul_projection": dotmul_projection,
    "dropout_layer": dropout_layer,
    "embedding_layer": embedding_layer,
    "fc_layer": fc_layer,
    "first_seq": first_seq,
    "full_matrix_projection": full_matrix_projection,
    "get_config_arg": get_config_arg,
    "identity_projection": identity_projection,
    "inputs": inputs,
    "last_seq": last_seq,
    "layer_math": SimpleNamespace(**arithmetic.NAMES),
    "logger": logging.getLogger("paddle"),
    "lstmemory": lstmemory,
    "maxid_layer": maxid_layer,
    "mixed_layer": mixed_layer,
    "mse_cost": mse_cost,
    "outputs": outputs,
    "pooling_layer": pooling_layer,
    "regression_cost": mse_cost,
    "repeat_layer": repeat_layer,
    "scaling_layer": scaling_layer,
    "scaling_projection": scaling_projection,
    "sequence_conv_pool": sequence_conv_pool,
    "settings": settings,
    "simple_lstm": simple_lstm,
    "slope_intercept_layer": slope_intercept_layer,
    "table_projection": table_projection,
    "text_conv_pool": sequence_conv_pool,
    "trans_full_matrix_projection": trans_full_matrix_projection,
}

# The rest of the language of 0.9 and 0.10, and of its low level that configs also saw.
_ELSEWHERE = """
BRelu BReluActivation STanhActivation SequenceSoftmaxActivation
SoftReluActivation ReciprocalActivation SqrtActivation CudnnAvgPooling CudnnMaxPooling SquareRootNPooling
BaseGeneratedInput BeamInput ExpandLevel GeneratedInput HookAttr HookAttribute LayerType StaticInput
SubsequenceInput auc_evaluator batch_norm_layer beam_search bidirectional_gru bilinear_interp_layer block_expand_layer
chunk_evaluator classification_error_printer_evaluator clip_layer column_sum_evaluator conv_operator conv_projection
conv_shift_layer convex_comb_layer crf_decoding_layer crf_layer crop_layer cross_channel_norm_layer cross_entropy
cross_entropy_over_beam cross_entropy_with_selfnorm ctc_error_evaluator ctc_layer define_py_data_sources
detection_map_evaluator detection_output_layer dotmul_operator eos_layer evaluator_base expand_layer gated_unit_layer
get_output_layer gradient_printer_evaluator gru_group gru_step_layer gru_step_naive_layer gru_unit grumemory hsigmoid
huber_cost huber_classification_cost huber_regression_cost img_cmrnorm_layer img_conv3d_layer img_conv_bn_pool
img_conv_group img_conv_layer img_pool3d_layer img_pool_layer img_separable_conv interpolation_layer
kmax_sequence_score_layer lambda_cost layer_support linear_comb_layer lstm_step_layer lstmemory_group
lstmemory_unit maxframe_printer_evaluator maxid_printer_evaluator maxout_layer memory multi_binary_label_cross_entropy
multibox_loss_layer multi_head_attention multiplex_layer nce_layer out_prod_layer pad_layer pnpair_evaluator power_layer
precision_recall_evaluator prelu_layer print_layer printer_layer priorbox_layer rank_cost recurrent_group recurrent_layer
resize_layer roi_pool_layer rotate_layer row_conv_layer row_l2_norm_layer sampling_id_layer
scale_shift_layer selective_fc_layer seq_concat_layer seq_reshape_layer seq_slice_layer
seqtext_printer_evaluator sequence_softmax simple_attention simple_gru simple_gru2 simple_img_conv_pool slice_projection
small_vgg smooth_l1_cost spp_layer sub_nested_seq_layer sub_seq_layer sum_cost sum_evaluator
sum_to_one_norm_layer switch_order_layer tensor_layer trans_layer value_printer_evaluator vgg_16_network warp_ctc_layer
Bias Data DataLayer Evaluator FullMatrixProjection HasInputsSet Import Inputs Layer Memory MixedLayer Outputs PyData
RecurrentLayerGroupBegin RecurrentLayerGroupEnd Settings SimpleData TableProjection TestData TrainData default_decay_rate
default_device default_gradient_clipping_threshold default_initial_mean default_initial_smart default_initial_std
default_initial_strategy default_momentum default_num_batches_regularization model_type
"""


class Elsewhere:
    """A name of the original that has no meaning here. Importing it is harmless; using it in any way is the error."""

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise current().error(f"{self._name} is a name of PaddlePaddle v1 that umiak does not have (docs/paddle-v1.md)")

    __call__ = __enter__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse()


NAMES: dict[str, Any] = {**{name: Elsewhere(name) for name in _ELSEWHERE.split()}, **_HERE}
