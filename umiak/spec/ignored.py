"""Flags of PaddlePaddle v1 that are read, checked for their type, and have nothing to act on here: each says why.

With those of umiak/spec/settings.py they are all that the C++ of v0.10 defined, and some that only its documents had.
"""

from __future__ import annotations

from typing import NamedTuple


class Ignored(NamedTuple):
    type: str
    reason: str


_SENDING = "a round's gradients always travel in one message per server"
_BUFFERS = "the operating system sizes socket buffers"
_BLOCKS = "the block size follows from the model"
_LAG = "--async_lagged_ratio_default alone sets the bound on old gradients"
_GPU = "v1 configs run on the CPU"
_THREADS = "--trainer_count sets the number of threads"
_BEAM = "there are no generating layers"
_BARRIER = "the log names who is waited for"
_SPREAD = "rows are spread over the servers by a hash of their id"
_CLIPPING = "clipping is not logged"
_STATE = "sequences do not continue from one batch to the next"
_TOOL = "it belonged to a program other than paddle train and paddle pserver"
_PROFILE = "there is no built-in profiler; use one of Python's"
_PYTHON = "configs and providers run in the interpreter that runs umiak"

IGNORED = {
    "test_all_data_in_one_period": Ignored("bool", "a test always reads all test data"),
    "distribute_test": Ignored("bool", "every trainer tests on all test data of a v1 config"),
    "rdma_tcp": Ignored("str", "connections are sockets; see --transport"),
    "pserver_num_threads": Ignored("int", "each service updates its parameters in one thread"),
    "loadsave_parameters_in_pserver": Ignored("bool", "servers always write their part of a checkpoint"),
    "use_old_updater": Ignored("bool", _SENDING),
    "small_messages": Ignored("bool", _SENDING),
    "async_count": Ignored("int", "use --mode async"),
    "async_lagged_ratio_min": Ignored("float", _LAG),
    "parameter_block_size": Ignored("int", _BLOCKS),
    "parameter_block_size_for_sparse": Ignored("int", _BLOCKS),
    "sock_send_buf_size": Ignored("int", _BUFFERS),
    "sock_recv_buf_size": Ignored("int", _BUFFERS),
    "comment": Ignored("str", ""),
    "allow_only_one_model_on_one_gpu": Ignored("bool", _GPU),
    "beam_size": Ignored("int", _BEAM),
    "check_sparse_distribution_batches": Ignored("int", _SPREAD),
    "check_sparse_distribution_in_pserver": Ignored("bool", _SPREAD),
    "check_sparse_distribution_ratio": Ignored("float", _SPREAD),
    "check_sparse_distribution_unbalance_degree": Ignored("float", _SPREAD),
    "cuda_dir": Ignored("str", _GPU),
    "cudnn_conv_workspace_limit_in_mb": Ignored("int", _GPU),
    "cudnn_dir": Ignored("str", _GPU),
    "diy_beam_search_prob_so": Ignored("str", _BEAM),
    "enable_grad_share": Ignored("int", _THREADS),
    "enable_parallel_vector": Ignored("int", _THREADS),
    "feat_file": Ignored("str", "the original never wrote it either; use --predict_output_dir"),
    "gpu_id": Ignored("int", _GPU),
    "grad_share_block_num": Ignored("int", _THREADS),
    "layer_stack_error_only_current_thread": Ignored("bool", "an error always names its layer"),
    "log_barrier_abstract": Ignored("bool", _BARRIER),
    "log_barrier_lowest_nodes": Ignored("int", _BARRIER),
    "log_barrier_show_log": Ignored("bool", _BARRIER),
    "log_clipping": Ignored("bool", _CLIPPING),
    "log_error_clipping": Ignored("bool", _CLIPPING),
    "memory_threshold_on_load_data": Ignored("float", "a provider's own pool_size bounds what is held"),
    "parallel_nn": Ignored("bool", _GPU),
    "parallel_thread_num": Ignored("int", _THREADS),
    "pool_limit_size": Ignored("int", "the operating system manages memory"),
    "predict_file": Ignored("str", "use `umiak predict --output FILE`"),
    "prev_batch_state": Ignored("bool", _STATE),
    "profile_data_file": Ignored("str", _PROFILE),
    "profile_signal": Ignored("int", _PROFILE),
    "python_bin": Ignored("str", _PYTHON),
    "python_path": Ignored("str", _PYTHON),
    "rnn_use_batch": Ignored("bool", "sequences are always computed together"),
    "show_check_sparse_distribution_log": Ignored("bool", _SPREAD),
    "show_layer_stat": Ignored("bool", "layers are not timed one by one"),
    "thread_local_rand_use_global_seed": Ignored("bool", "all random numbers follow from --seed"),
    "warpctc_dir": Ignored("str", _GPU),
}
