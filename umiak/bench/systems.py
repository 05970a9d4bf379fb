"""Which systems a workload is measured with, and where each of them lives. Names only: nothing heavy is imported."""

from __future__ import annotations

import importlib.util

TRAINED = ("recommendation", "ctr", "quick_start")
V1_TRAINED = ("v1-lr", "v1-cnn", "v1-recommendation")
DATA = ("data-ctr", "data-reader", "data-opening", "data-memory")
GROUPS = {
    **{name: (name,) for name in TRAINED},
    "table": ("table",),
    "wire": ("wire-trips", "wire-bytes"),
    "strangers": ("strangers",),
    "paddle_v1": (*V1_TRAINED, "v1-lstm"),
    "data": DATA,
    "all": (*TRAINED, "table", "wire-trips", "wire-bytes"),
}
"""What the user can ask for, and the workloads it stands for."""

_TRAINING = {
    "limit": ("ours", "limit"),
    "umiak": ("ours", "umiak"),
    "umiak-tls": ("ours", "umiak_tls"),
    "umiak-async": ("ours", "umiak_async"),
    "torch-ddp": ("peers.plain_torch", "ddp"),
    "torch": ("peers.plain_torch", "single"),
    "paddle": ("peers.paddle", "sync"),
    "paddle-as-shipped": ("peers.paddle", "as_shipped"),
    "paddle-async": ("peers.paddle", "asynchronous"),
    "paddle-dataset": ("peers.paddle", "dataset"),
}
_TABLE = {"limit": ("table", "limit"), "umiak": ("table", "umiak")}
_WIRE = {
    "limit": ("wire", "bare"),
    "umiak": ("wire", "unix"),
    "umiak-tcp": ("wire", "tcp"),
    "umiak-tls": ("wire", "tls"),
}
_STRANGERS = {"limit": ("strangers", "elsewhere"), "umiak": ("strangers", "here")}
_V1 = {"limit": ("paddle_v1", "native"), "umiak": ("paddle_v1", "v1")}
_LSTM = {
    "limit": ("lstm", "limit"),
    "umiak": ("lstm", "v1"),
    "torchscript": ("lstm", "script"),
    "torch": ("lstm", "eager"),
}
_DATA = {
    "limit": ("feeding", "memory"),
    "umiak": ("feeding", "parquet"),
    "umiak-s3": ("feeding", "s3"),
    "mosaicml": ("peers.feeders", "mosaicml"),
    "litdata": ("peers.feeders", "litdata"),
}
LIMITED = "umiak-limited"
"""A pass over data of five times the memory. It takes minutes and is run once."""
_OPENING = {"limit": ("feeding", "one_window"), "umiak": ("feeding", "in_the_middle")}
_MEMORY = {LIMITED: ("feeding_memory", "run")}
_READER = {"limit": ("feeding", "scan"), "umiak": ("feeding", "read")}
FEEDERS = ("mosaicml", "litdata")
"""Libraries that feed the trainers of umiak from files of their own."""
_OF = {
    "data-ctr": _DATA,
    "data-reader": _READER,
    "data-opening": _OPENING,
    "data-memory": _MEMORY,
    **dict.fromkeys(TRAINED, _TRAINING),
    **dict.fromkeys(V1_TRAINED, _V1),
    "v1-lstm": _LSTM,
    "table": _TABLE,
    "wire-trips": _WIRE,
    "wire-bytes": _WIRE,
    "strangers": _STRANGERS,
}

SYNC_PADDLES = ("paddle", "paddle-as-shipped")
"""The same, with and without MKL_DEBUG_CPU_TYPE=5: the faster of the two is what others are compared with."""


BASELINE = "baseline"
"""umiak of another checkout."""


def systems(workload: str, paddle: bool, baseline: bool = False, feeders: bool = False) -> list[str]:
    """What is measured here: Paddle if asked for, others that umiak is compared with where they are installed.

    Who asks for a baseline wants to know what a change costs: umiak before and after it, and nothing else, take turns.
    """
    if baseline and workload in TRAINED:
        return ["limit", "umiak", BASELINE]
    found = [name for name in _OF[workload] if paddle or not name.startswith("paddle")]
    found = [name for name in found if feeders or name not in FEEDERS]
    if not has_peers():
        found = [name for name in found if not place(workload, name)[0].startswith("peers.") and name != "umiak-s3"]
    return found


def has_peers() -> bool:
    return importlib.util.find_spec("umiak.bench.peers") is not None


def place(workload: str, system: str) -> tuple[str, str]:
    """Module and function of a system."""
    return _OF[workload][system]


def trainers(system: str, workers: int) -> int:
    """How many processes of a system train, and write down their rounds."""
    return 1 if system == "torch" else workers


def may_be_missing(system: str) -> bool:
    """Whether the bench continues without it, with a note, where it does not run."""
    return system.startswith("paddle") or system in ("umiak-async", LIMITED, *FEEDERS)
