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
    "config_args": Flag("k=v,k=v: what the config reads as arguments", TRAINERS + SNAPSHOTS + PADDLE_MERGE, v1=True),
    "paddle_version": Flag(
        "which v1 a v1 config means; 0.10, or that of the snapshot",
        TRAINERS + SNAPSHOTS + PADDLE_TRAIN + PADDLE_MERGE,
        choices=PADDLE_VERSIONS,
    ),
    "job": Flag("what to do", TRAINERS, choices=("train", "test", "time", "checkgrad"), v1=True),
    "workers": Flag("number of workers: a trainer and a parameter server each", TRAIN, minimum=1),
    "servers": Flag("number of servers, apart from the trainers (one per worker)", TRAIN, minimum=1),
    "local": Flag("train in one process, without servers", TRAINERS, v1=True),
    "num_passes": Flag("number of passes over the data", RUNS, aliases=("passes",), minimum=0, v1=True),
    "start_pass": Flag("begin with the snapshot of the pass before this one", TRAINERS, minimum=0, v1=True),
    "save_dir": Flag("where snapshots, checkpoints and logs go", RUNS + SNAPSHOTS, aliases=("out",), v1=True),
    "resume": Flag("resume from the last checkpoint in the output directory", RUNS),
    "resume_round": Flag(
        "with --resume: resume from this round's checkpoint; newer ones are set aside", RUNS, minimum=0
    ),
    "overwrite": Flag("replace what is there", (*TRAINERS, "predict")),
    "init_from": Flag("start from the parameters and optimizer state of this checkpoint", TRAINERS),
    "init_model_path": Flag("a snapshot directory to load", TRAINERS + SNAPSHOTS, v1=True),
    "load_missing_parameter_strategy": Flag(
        "what a parameter begins with that the snapshot lacks", TRAINERS, choices=("fail", "rand", "zero"), v1=True
    ),
    "own_data": Flag("each trainer finds its own part of the data, and reads all of it", TRAINERS),
    "mode": Flag("sync: rounds; async: every message at once", RUNS, choices=("sync", "async")),
    "async_lagged_ratio_default": Flag("async: drop gradients older than this × trainers updates", RUNS, v1=True),
    "seed": Flag("seed of everything random; 0: from the clock", TRAINERS, minimum=0, v1=True),
    "trainer_count": Flag("threads of a trainer", TRAINERS + SNAPSHOTS, minimum=1, v1=True),
    "use_gpu": Flag("compute on CUDA", TRAINERS + SNAPSHOTS, v1=True),
    "log_period": Flag("a line in train.log every so many batches; 0: never", TRAINERS, minimum=0, v1=True),
    "dot_period": Flag("a dot in train.log every so many batches; 0: never", TRAINERS, minimum=0, v1=True),
    "log_period_server": Flag("a line in server.log every so many rounds; 0: never", RUNS, minimum=0, v1=True),
    "show_parameter_stats_period": Flag("parameter statistics every so many batches", TRAINERS, minimum=0, v1=True),
    "test_period": Flag("test every so many batches too; 0: at the end of a pass only", TRAINERS, minimum=0, v1=True),
    "average_test_period": Flag(
        "try averaged values on batches, every so many; 0: never", TRAINERS, minimum=0, v1=True
    ),
    "saving_period": Flag("a snapshot every so many passes", RUNS, minimum=1, v1=True),
    "saving_period_by_batches": Flag("a snapshot every so many batches too; 0: never", RUNS, minimum=0, v1=True),
    "save_only_one": Flag("keep only the newest snapshot", RUNS, v1=True),
    "checkpoint_minutes": Flag("a checkpoint every so many minutes, beside one per pass", RUNS, minimum=0),
    "max_restarts": Flag("how often a job may restart before it gives up", TRAIN, minimum=0),
    "transport": Flag("how roles on one machine talk", RUNS, choices=("unix", "tcp")),
    "tls": Flag("directory of certificates: mutual TLS (see umiak certs)", RUNS + PADDLE_ROLES),
    "insecure": Flag("allow connections that leave this machine without TLS", RUNS + PADDLE_ROLES),
    "trainer_id": Flag("which trainer this is, from 0", ("trainer",), minimum=0, v1=True),
    "num_gradient_servers": Flag("number of trainers of the job", ROLES, minimum=1, v1=True),
    "pservers": Flag("hosts of the parameter servers, with commas", ("trainer",), v1=True),
    "nics": Flag("interfaces to listen on, with commas; empty: all", ("pserver",), v1=True),
    "port": Flag("first port of every server", RUNS, minimum=0, maximum=65535, v1=True),
    "ports_num": Flag("dense ports per server", RUNS, minimum=1, v1=True),
    "ports_num_for_sparse": Flag("ports per server for tables, after the dense ones", RUNS, minimum=0, v1=True),
    "test_pass": Flag("the pass to test; -1: the last", TRAINERS + SNAPSHOTS, aliases=("pass",), minimum=-1, v1=True),
    "test_wait": Flag("--job=test: wait for passes that are not there yet", PADDLE_TRAIN, minimum=0, v1=True),
    "model_list": Flag("--job=test: a file that names snapshots, one in a line", PADDLE_TRAIN, v1=True),
    "predict_output_dir": Flag("--job=test: where the outputs go, as rank-00000", PADDLE_TRAIN, v1=True),
    "feed_data": Flag("--job=time: read a new batch each time", PADDLE_TRAIN, v1=True),
    "checkgrad_eps": Flag("--job=checkgrad: the step, as a share of the cost", PADDLE_TRAIN, v1=True),
    "start_pserver": Flag("start a parameter server too", PADDLE_TRAIN, v1=True),
    "with_cost": Flag("what a config reads as its argument with_cost", PADDLE_TRAIN, v1=True),
    "model_dir": Flag("the snapshot to merge", PADDLE_MERGE, v1=True),
    "model_file": Flag("the merged file to write", PADDLE_MERGE, v1=True),
    "output": Flag("the file to write", ("predict",)),
}
