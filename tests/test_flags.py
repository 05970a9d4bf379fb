"""One command line for all verbs, read by the rules of gflags."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from umiak.bench import arguments as bench
from umiak.cli import certs, export, show
from umiak.errors import InputError
from umiak.spec.flags import DEFAULTS, Own, build, help_own, help_text, parse, parse_own
from umiak.spec.ignored import IGNORED
from umiak.spec.settings import FLAGS, Settings

# Every flag that the C++ of v0.10 defined, and three that only its documents had, with a value they accepted.
V1 = """config=a.py config_args=a=1,b=2 job=train local=0 use_gpu=0 trainer_count=4 num_passes=10 start_pass=0
init_model_path=m load_missing_parameter_strategy=rand save_dir=o saving_period=1 saving_period_by_batches=0
save_only_one=false log_period=50 dot_period=10 test_period=0 test_all_data_in_one_period=1
show_parameter_stats_period=0 test_pass=-1 test_wait=0 model_list= predict_output_dir= distribute_test=0 seed=1
pservers=10.0.0.1,10.0.0.2 port=7164 ports_num=2 ports_num_for_sparse=2 nics=eth0 rdma_tcp=tcp trainer_id=0
num_gradient_servers=3 pserver_num_threads=1 start_pserver=0 loadsave_parameters_in_pserver=0 use_old_updater=1
async_lagged_ratio_min=1.0 async_lagged_ratio_default=1.5 log_period_server=500 sock_send_buf_size=41943040
sock_recv_buf_size=41943040 small_messages=0 comment=paddle_process_by_paddle async_count=200
parameter_block_size=0 parameter_block_size_for_sparse=0
allow_only_one_model_on_one_gpu=1 average_test_period=0 beam_size=1 check_sparse_distribution_batches=100
check_sparse_distribution_in_pserver=0 check_sparse_distribution_ratio=0.6
check_sparse_distribution_unbalance_degree=2.0 checkgrad_eps=1e-5 cuda_dir= cudnn_conv_workspace_limit_in_mb=4096
cudnn_dir= diy_beam_search_prob_so= enable_grad_share=104857600 enable_parallel_vector=0 feat_file= feed_data=0 gpu_id=0
grad_share_block_num=64 layer_stack_error_only_current_thread=1 log_barrier_abstract=1 log_barrier_lowest_nodes=5
log_barrier_show_log=0 log_clipping=0 log_error_clipping=0 memory_threshold_on_load_data=1.0 model_dir= model_file=
parallel_nn=0 parallel_thread_num=1 pool_limit_size=536870912 predict_file= prev_batch_state=0
profile_data_file=gperf.prof profile_signal=12 python_bin=python2.7 python_path= rnn_use_batch=0
show_check_sparse_distribution_log=0 show_layer_stat=0 thread_local_rand_use_global_seed=0 warpctc_dir= with_cost=1"""


JOINING = ("local=0", "pservers=10.0.0.1,10.0.0.2")
"""What says that a trainer joins servers of others."""


@pytest.mark.parametrize("verb", ["train", "trainer", "pserver", "test", "predict", "paddle train", "paddle pserver"])
def test_every_flag_of_2016_is_accepted_by_every_role(verb: str) -> None:
    assert len(V1.split()) == 86 + 3
    parse(verb, [f"--{flag}" for flag in V1.split() if verb != "train" or flag not in JOINING])


@pytest.mark.parametrize("flag", [*JOINING, "local=false", "nolocal", "pservers=127.0.0.1"])
def test_umiak_train_does_not_start_workers_of_its_own_where_servers_of_others_are_meant(flag: str) -> None:
    with pytest.raises(InputError, match=r"starts servers of its own.* `paddle train` or `umiak trainer`"):
        parse("train", ["a.py", f"--{flag}"])
    assert parse("train", ["a.py", "--local"]).local


def test_paddle_train_has_the_defaults_of_v1_and_umiak_train_its_own() -> None:
    theirs, ours = parse("paddle train", []), parse("train", [])
    assert (theirs.local, theirs.num_passes, theirs.save_dir) == (True, 100, Path("output/model"))
    assert (ours.local, ours.workers, ours.num_passes, ours.save_dir) == (False, 3, 10, Path("output"))
    for name in (
        "trainer_count",
        "log_period",
        "dot_period",
        "test_period",
        "saving_period",
        "port",
        "seed",
        "use_gpu",
    ):
        assert getattr(theirs, name) == getattr(ours, name)
    with pytest.raises(
        InputError, match=r"--resume is a flag of umiak train .*, not of paddle train; paddle train --help"
    ):
        parse("paddle train", ["--resume"])
    with pytest.raises(InputError, match=r"paddle train takes flags only, and was given 'a\.py'"):
        parse("paddle train", ["a.py"])
    assert parse("train", ["--feed_data=1"]).warnings == (
        "--feed_data has no effect in umiak train; it acts in paddle train",
    )


def test_the_tutorials_own_command_line_means_what_it_meant() -> None:
    settings = parse("trainer", [f"--{flag}" for flag in V1.split()])
    assert settings.config == Path("a.py")
    assert settings.config_args == {"a": "1", "b": "2"}
    assert settings.pservers == ("10.0.0.1", "10.0.0.2")
    assert (settings.port, settings.ports_num, settings.ports_num_for_sparse) == (7164, 2, 2)
    assert (settings.local, settings.num_passes, settings.trainer_count) == (False, 10, 4)


def test_flags_without_effect_warn_once_and_say_why() -> None:
    settings = parse("train", ["a.py", "--rdma_tcp=tcp", "--rdma-tcp=rdma", "--trainer_id=2", "--comment=mine"])
    assert settings.warnings == (
        "--rdma_tcp has no effect: connections are sockets; see --transport",
        "--trainer_id has no effect in umiak train",
    )
    assert settings.trainer_id == 0


@pytest.mark.parametrize(
    "argv",
    [
        ["--num_passes=7"],
        ["--num-passes=7"],
        ["--num_passes", "7"],
        ["--passes", "7"],
        ["-passes=7"],
        ["--passes=3", "--num_passes=7"],
    ],
)
def test_ways_to_write_a_number(argv: list[str]) -> None:
    assert parse("train", argv).num_passes == 7


@pytest.mark.parametrize(
    ("argv", "value"),
    [
        (["--resume"], True),
        (["--resume=1"], True),
        (["--resume=TRUE"], True),
        (["--resume=0"], False),
        (["--resume", "--noresume"], False),
        (["--noresume", "--resume"], True),
        (["--resume", "--no-resume"], False),
    ],
)
def test_ways_to_write_a_switch(argv: list[str], value: bool) -> None:
    assert parse("train", argv).resume is value


def test_a_switch_never_eats_the_next_word() -> None:
    settings = parse("train", ["--resume", "model.py"])
    assert settings.resume
    assert settings.config == Path("model.py")


def test_negative_numbers_are_values() -> None:
    assert parse("test", ["--pass", "-1"]).test_pass == -1


def test_out_is_save_dir_and_defaults_suit_the_verb() -> None:
    assert parse("train", ["--out", "x"]).save_dir == parse("train", ["--save_dir=x"]).save_dir == Path("x")
    assert parse("train", []).transport == "unix"
    assert parse("pserver", []).transport == "tcp"
    assert parse("train", []) == Settings()


def test_test_and_predict_take_a_snapshot_or_a_config() -> None:
    assert parse("test", ["out/pass-00003"]).init_model_path == Path("out/pass-00003")
    assert parse("predict", ["model.py", "--pass=3"]).config == Path("model.py")


@pytest.mark.parametrize(
    ("verb", "argv", "message"),
    [
        ("train", ["--pases=3"], "unknown flag --pases, did you mean --passes?"),
        ("train", ["--xyzzy"], "unknown flag --xyzzy;"),
        ("train", ["--noworkers"], "unknown flag --noworkers"),
        ("train", ["--workers=three"], "--workers='three' is not a whole number; write --workers=3"),
        ("train", ["--workers=0"], "--workers=0 is too small; write at least 1"),
        ("train", ["--port=70000"], "--port=70000 is too large; write at most 65535"),
        ("train", ["--checkpoint_minutes=nan"], "--checkpoint_minutes='nan' is not a number"),
        ("train", ["--resume=maybe"], "--resume='maybe' is not a switch; write --resume=true"),
        ("train", ["--noresume=1"], "--noresume takes no value"),
        ("train", ["--mode=fast"], "--mode='fast' is unknown; write one of sync, async"),
        ("train", ["--workers"], "--workers needs a value; write --workers=3"),
        ("train", ["--out="], "--out='' is not a path"),
        ("train", ["--config_args=a"], "is not a list of name=value"),
        ("train", ["--rdma_tcp"], "--rdma_tcp needs a value"),
        ("train", ["a.py", "b.py"], "takes one CONFIG, and was given 'b.py' after it"),
        ("train", ["a.py", "--config=b.py"], "'a.py' and --config say the same thing"),
        ("pserver", ["a.py"], "takes flags only"),
        ("pserver", ["--workers=3"], "--workers is a flag of umiak train and umiak predict, not of umiak pserver"),
    ],
)
def test_bad_flags_name_the_flag_and_what_to_write(verb: str, argv: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(verb, argv)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_nearest_name_is_one_this_verb_knows() -> None:
    with pytest.raises(InputError, match="did you mean --output"):
        parse_own("export", ["--outptu=x"], export.ARGUMENTS)


@pytest.mark.parametrize(
    ("own", "argv", "message"),
    [
        (certs.ARGUMENTS, ["--num_passes=3"], "unknown flag --num_passes"),
        (certs.ARGUMENTS, ["--rdma_tcp=tcp"], "unknown flag --rdma_tcp"),
        (certs.ARGUMENTS, ["a", "b"], "takes one DIR, and was given 'b' after it"),
        (certs.ARGUMENTS, ["a", "--workers=0"], "--workers=0 is too small"),
        (show.ARGUMENTS, ["--rounds=3"], "unknown flag --rounds"),
        (bench.ARGUMENTS, ["crt"], "WORKLOAD='crt' is unknown; write one of recommendation"),
    ],
)
def test_a_verb_with_arguments_of_its_own_reads_them_by_the_same_rules(
    own: Own[Any], argv: list[str], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        parse_own("verb", argv, own)
    assert message in str(caught.value)


def test_arguments_of_one_verb_are_no_settings_of_a_training() -> None:
    assert not {"workload", "rounds", "plot", "rows", "network_us", "paddle"} & set(FLAGS)
    assert parse_own("show", ["a.py", "--workers=2", "--local"], show.ARGUMENTS).local
    assert parse_own("export", ["--init-model-path=x"], export.ARGUMENTS).snapshot == Path("x")
    assert parse_own("certs", ["--tls=x"], certs.ARGUMENTS).directory == Path("x"), (
        "flags of earlier versions are still read"
    )


def test_a_python_caller_gives_values_where_a_command_line_has_text() -> None:
    given = {"workers": 2, "out": Path("o"), "seed": "7", "pservers": ["a", "b"], "resume": True, "port": 7164}
    from_text = parse("trainer", ["--out=o", "--seed=7", "--pservers=a,b", "--resume", "--port=7164"])
    assert build("trainer", {name: given[name] for name in given if name != "workers"}) == from_text
    assert build("train", {"workers": 2, "checkpoint_minutes": 3}).checkpoint_minutes == 3
    for name, value, message in (
        ("workers", "two", "--workers='two' is not a whole number"),
        ("workers", 2.5, "--workers=2.5 is not a whole number"),
        ("workers", True, "--workers=True is not a whole number"),
        ("workers", 0, "--workers=0 is too small; write at least 1"),
        ("mode", "fast", "--mode='fast' is unknown"),
        ("pases", 3, "unknown flag --pases, did you mean --passes?"),
        ("rounds", 3, "unknown flag --rounds"),
    ):
        with pytest.raises(InputError) as caught:
            build("train", {name: value})
        assert message in str(caught.value)
    assert build("train", {"rdma_tcp": "tcp"}).warnings


def test_every_setting_is_a_flag_and_every_flag_a_setting() -> None:
    assert set(FLAGS) | {"warnings"} == {f.name for f in fields(Settings)}
    assert not set(FLAGS) & set(IGNORED)
    assert {name for defaults in DEFAULTS.values() for name in defaults} <= set(FLAGS)


def test_help_shows_a_verbs_own_flags_only() -> None:
    text = help_text("train")
    assert "--passes, --num-passes N" in text
    assert "[10]" in text
    assert "--trainer-id" not in text
    assert all(len(line) <= 120 for line in text.splitlines())
    assert "--rdma_tcp" in text
    assert "--rdma_tcp" not in help_own("certs", certs.ARGUMENTS)
