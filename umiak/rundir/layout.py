"""Where everything of a run lies below its output directory. No other module writes one of these names.

OUT/pass-00000/                      snapshots: the model after a pass (snapshot.py)
OUT/best                             a link to the best of them, where passes are compared
OUT/checkpoints/round-…-…/           checkpoints: pieces and a manifest (checkpoint.py, piece.py)
OUT/data-index/                      what streamed data the run began with (trainer/indices.py)
OUT/metrics.jsonl, events.jsonl, tensorboard/, curves.png, run.json, job.log
OUT/sinks.json, wandb/                what --log-to has sent, and where
OUT/node_0/train.log, server.log, worker.log
OUT/generations/, job.json, .lock    who may write here (generations.py, lease.py, lock.py)
"""

from __future__ import annotations

from pathlib import Path

CHECKPOINTS = "checkpoints"
DATA_INDEX = "data-index"
GENERATIONS = "generations"
METRICS = "metrics.jsonl"
EVENTS = "events.jsonl"
TENSORBOARD = "tensorboard"
CURVES = "curves.png"
SINKS = "sinks.json"
WANDB = "wandb"
RUN = "run.json"
JOB = "job.json"
JOB_LOG = "job.log"
LOCK = ".lock"
PASS = "pass-"
BEST = "best"
NODE = "node_"
TRAINER_LOG = "train.log"
SERVER_LOG = "server.log"
WORKER_LOG = "worker.log"

MODEL = "model.json"
DONE = "done"
"""Marks a complete snapshot."""
CONFIG_NAME = "path.txt"
BUFFERS = "buffers.safetensors"

MANIFEST = "manifest.json"
"""Commits a checkpoint."""

OUTPUTS = (CHECKPOINTS, DATA_INDEX, METRICS, EVENTS, TENSORBOARD, CURVES, SINKS, WANDB, RUN, JOB_LOG)
"""What a run writes beside snapshots and the logs of its workers."""


def node(out: Path, worker: int) -> Path:
    """Where the logs of a worker go."""
    return out / f"{NODE}{worker}"


def snapshot_name(pass_id: int, inner: int | None = None) -> str:
    """That of a pass, or of the `inner`-th snapshot within it."""
    return f"{PASS}{pass_id:05d}" + (f"-{inner:03d}" if inner is not None else "")


def linked_best(out: Path) -> Path | None:
    """The snapshot that `best` links to; None without such a link."""
    link = out / BEST
    return out / link.readlink() if link.is_symlink() else None


def is_output(path: Path) -> bool:
    """Whether an entry of an output directory was written by a run."""
    if path.name == BEST:
        return path.is_symlink()
    return path.name in OUTPUTS or path.name.startswith((PASS, f".{PASS}", NODE))
