"""The arguments of `umiak bench`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from umiak.spec.flags import Own
from umiak.spec.settings import Flag

WORKLOADS = (
    "recommendation",
    "ctr",
    "quick_start",
    "table",
    "wire",
    "strangers",
    "scale",
    "capacity",
    "paddle_v1",
    "data",
    "all",
)


@dataclass(frozen=True)
class Arguments:
    workload: str = "all"
    seconds: float = 1.0
    rounds: int = 10
    json: Path | None = None
    plot: Path | None = None
    paddle: bool = False
    feeders: bool = False
    baseline: Path | None = None
    rows: int = 50_000_000
    network_gbit: float = 10.0
    network_us: float = 50.0


ARGUMENTS = Own(
    Arguments,
    {
        "workload": Flag("what to measure", choices=WORKLOADS),
        "seconds": Flag("how long each turn of a system is measured", minimum=0),
        "rounds": Flag("how many turns each system has; figures are medians", minimum=1),
        "json": Flag("write the figures to this file"),
        "plot": Flag("draw the figures into this PNG"),
        "paddle": Flag("also measure Paddle 2.6.2; installs it first (600 MB)"),
        "feeders": Flag("data: also measure mosaicml-streaming and litdata; installs them first (6 GB)"),
        "baseline": Flag("compare with the umiak of another checkout, prepared by `make setup`"),
        "rows": Flag("capacity: number of rows the table grows to", minimum=1_000_000),
        "network_gbit": Flag("scale: bandwidth between machines, in Gbit/s", minimum=1),
        "network_us": Flag("scale: one-way latency between machines, in microseconds", minimum=0),
    },
    positional="workload",
    metavar="WORKLOAD",
)
