"""The flags that verbs share, declared once: their type, default, help, other names, and the verbs they act in.

One namespace, as in `paddle train` and `paddle pserver`, so that one argument list can be given to both roles.
Reading a command line is umiak/spec/flags.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


@dataclass(frozen=True)
class Settings:
    """A command line after it was read, or what a Python caller asks for. `warnings` are lines for the user."""

    config: Path | None = None
    config_args: dict[str, str] = field(default_factory=dict)
    paddle_version: str = ""
    job: str = "train"
    workers: int = 3
    servers: int | None = None
    local: bool = False
    num_passes: int = 10
    patience: int = 0
    start_pass: int = 0
    save_dir: Path = Path("output")
    resume: bool = False
    resume_round: int | None = None
    overwrite: bool = False
    init_from: Path | None = None
    init_model_path: Path | None = None
    load_missing_parameter_strategy: str = "fail"
    own_data: bool = False
    mode: str = "sync"
    async_lagged_ratio_default: float = 1.5
    seed: int = 1
    trainer_count: int = 1
    use_gpu: bool = False

    log_period: int = 100
    dot_period: int = 1
    log_period_server: int = 500
    show_parameter_stats_period: int = 0
    test_period: int = 0
    average_test_period: int = 0
    saving_period: int = 1
    saving_period_by_batches: int = 0
    save_only_one: bool = False
    checkpoint_minutes: float = 10.0
    max_restarts: int = 10
    log_to: tuple[str, ...] = ()
    page: bool = False
    keep_page: bool = False

    transport: str = "unix"
    tls: Path | None = None
    insecure: bool = False
    trainer_id: int = 0
    num_gradient_servers: int = 1
    pservers: tuple[str, ...] = ("127.0.0.1",)
    nics: tuple[str, ...] = ("lo",)
    port: int = 20134
    ports_num: int = 1
    ports_num_for_sparse: int = 0

    test_pass: int = -1
    test_wait: int = 0
    model_list: Path | None = None
    predict_output_dir: Path | None = None
    feed_data: bool = False
    checkgrad_eps: float = 1e-5
    start_pserver: bool = False
    with_cost: bool = True
    model_dir: Path | None = None
    model_file: Path | None = None
    output: Path | None = None
    data: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()

    warnings: tuple[str, ...] = ()


class Flag(NamedTuple):
    """What a command line needs to know about a field, beside its type and default. `v1`: a flag of the 2016 system."""

    help: str
    verbs: tuple[str, ...] = ()
    """Where it acts; empty for a flag that one verb has for itself."""
    v1: bool = False
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None


TRAIN = ("train",)
ROLES = ("pserver", "trainer")
TRAINERS = ("train", "trainer")
RUNS = ("train", "pserver", "trainer")
SNAPSHOTS = ("test", "predict")
PADDLE_TRAIN = ("paddle train",)
PADDLE_ROLES = ("paddle train", "paddle pserver")
PADDLE_MERGE = ("paddle merge_model",)
PADDLE_VERSIONS = ("0.9", "0.10")

FLAGS = {
    "config": Flag("the config file", RUNS + SNAPSHOTS, v1=True),
    "config_args": Flag("k=v,k=v: arguments of the config", TRAINERS + SNAPSHOTS + PADDLE_MERGE, v1=True),
    "paddle_version": Flag(
        "the PaddlePaddle version of a v1 config; 0.10, or the snapshot's",
        TRAINERS + SNAPSHOTS + PADDLE_TRAIN + PADDLE_MERGE,
        choices=PADDLE_VERSIONS,
    ),
    "job": Flag("what to do", TRAINERS, choices=("train", "test", "time", "checkgrad"), v1=True),
    "workers": Flag(
        "workers: a trainer and a parameter server each, or processes that predict",
        (*TRAIN, "predict"),
        minimum=1,
    ),
    "servers": Flag(
        "number of parameter servers, separate from the trainers (default: one per worker)", TRAIN, minimum=1
    ),
    "local": Flag("train in one process, without servers", TRAINERS, v1=True),
    "num_passes": Flag("number of passes over the data", RUNS, aliases=("passes",), minimum=0, v1=True),
    "patience": Flag("stop after N passes without a better test; 0: train all passes", RUNS, minimum=0),
    "start_pass": Flag("start from the snapshot of the pass before this one", TRAINERS, minimum=0, v1=True),
    "save_dir": Flag("where snapshots, checkpoints and logs go", RUNS + SNAPSHOTS, aliases=("out",), v1=True),
    "resume": Flag("resume from the last checkpoint in the output directory", RUNS),
    "resume_round": Flag(
        "with --resume: resume from this round's checkpoint; newer ones are set aside", RUNS, minimum=0
    ),
    "overwrite": Flag("replace what the output directory or file holds", (*TRAINERS, "predict")),
    "init_from": Flag("start from the parameters and optimizer state of this checkpoint", TRAINERS),
    "init_model_path": Flag("a snapshot directory to load", TRAINERS + SNAPSHOTS, v1=True),
    "load_missing_parameter_strategy": Flag(
        "how to initialise a parameter that the snapshot lacks", TRAINERS, choices=("fail", "rand", "zero"), v1=True
    ),
    "own_data": Flag("each trainer has data of its own and reads all of it", TRAINERS),
    "mode": Flag(
        "sync: update in rounds; async: apply each gradient as it arrives",
        RUNS,
        choices=("sync", "async"),
    ),
    "async_lagged_ratio_default": Flag("async: drop a gradient that is this × trainers updates old", RUNS, v1=True),
    "seed": Flag("random seed; 0: take one from the clock", TRAINERS, minimum=0, v1=True),
    "trainer_count": Flag("number of threads of each trainer", TRAINERS + SNAPSHOTS, minimum=1, v1=True),
    "use_gpu": Flag("compute on a CUDA device", TRAINERS + SNAPSHOTS, v1=True),
    "log_period": Flag("write a line to train.log every N batches; 0: never", TRAINERS, minimum=0, v1=True),
    "dot_period": Flag("write a dot to train.log every N batches; 0: never", TRAINERS, minimum=0, v1=True),
    "log_period_server": Flag("write a line to server.log every N rounds; 0: never", RUNS, minimum=0, v1=True),
    "show_parameter_stats_period": Flag("log parameter statistics every N batches", TRAINERS, minimum=0, v1=True),
    "test_period": Flag("also test every N batches; 0: only at the end of a pass", TRAINERS, minimum=0, v1=True),
    "average_test_period": Flag("test averaged parameters every N batches; 0: never", TRAINERS, minimum=0, v1=True),
    "saving_period": Flag("write a snapshot every N passes", RUNS, minimum=1, v1=True),
    "saving_period_by_batches": Flag("also write a snapshot every N batches; 0: never", RUNS, minimum=0, v1=True),
    "save_only_one": Flag("keep only the newest snapshot, and with --patience the best one", RUNS, v1=True),
    "checkpoint_minutes": Flag("write a checkpoint every N minutes, besides one per pass", RUNS, minimum=0),
    "max_restarts": Flag("how often a job may restart before it gives up", TRAIN, minimum=0),
    "log_to": Flag("also log to MLflow or Weights & Biases: mlflow:URI,wandb:PROJECT", TRAIN),
    "page": Flag("show the run on a page for your browser, and print its address (see umiak page)", TRAIN),
    "keep_page": Flag("the same, and keep the page after training, until Ctrl-C", TRAIN),
    "transport": Flag("how processes on one machine communicate", RUNS, choices=("unix", "tcp")),
    "tls": Flag("directory of certificates: mutual TLS (see umiak certs)", RUNS + PADDLE_ROLES),
    "insecure": Flag("allow connections that leave this machine without TLS", RUNS + PADDLE_ROLES),
    "trainer_id": Flag("number of this trainer, from 0", ("trainer",), minimum=0, v1=True),
    "num_gradient_servers": Flag("number of trainers of the job", ROLES, minimum=1, v1=True),
    "pservers": Flag("hosts of the parameter servers, separated by commas", ("trainer",), v1=True),
    "nics": Flag("interfaces to listen on, separated by commas; empty: all", ("pserver",), v1=True),
    "port": Flag("first port of every server", RUNS, minimum=0, maximum=65535, v1=True),
    "ports_num": Flag("dense ports per server", RUNS, minimum=1, v1=True),
    "ports_num_for_sparse": Flag("ports per server for tables, after the dense ones", RUNS, minimum=0, v1=True),
    "test_pass": Flag("the pass to test; -1: the last", TRAINERS + SNAPSHOTS, aliases=("pass",), minimum=-1, v1=True),
    "test_wait": Flag("--job=test: wait for passes that are not there yet", PADDLE_TRAIN, minimum=0, v1=True),
    "model_list": Flag("--job=test: a file that names snapshots, one per line", PADDLE_TRAIN, v1=True),
    "predict_output_dir": Flag("--job=test: where the outputs go, as rank-00000", PADDLE_TRAIN, v1=True),
    "feed_data": Flag("--job=time: read a new batch each time", PADDLE_TRAIN, v1=True),
    "checkgrad_eps": Flag("--job=checkgrad: the step, as a share of the cost", PADDLE_TRAIN, v1=True),
    "start_pserver": Flag("also start a parameter server", PADDLE_TRAIN, v1=True),
    "with_cost": Flag("value of the config's argument with_cost", PADDLE_TRAIN, v1=True),
    "model_dir": Flag("the snapshot to merge", PADDLE_MERGE, v1=True),
    "model_file": Flag("the merged file to write", PADDLE_MERGE, v1=True),
    "output": Flag("the file to write", ("predict",)),
    "data": Flag("files to predict for, or a pattern, here or in s3://; writes Parquet", ("predict",)),
    "keep": Flag("with --data: columns to carry along, separated by commas", ("predict",)),
}
