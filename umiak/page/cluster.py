"""What a Kubernetes cluster tells of a job, beside the files that were brought from it. Who asks it is umiak/cli/job_page.py."""

from __future__ import annotations

from dataclasses import dataclass, field

from umiak.page.answers import Checkpoint, Command, Failure, Snapshot, State
from umiak.page.cost import Price


@dataclass(frozen=True)
class ClusterJob:
    """`problem` is one line: why it failed or waits, or why the cluster cannot be asked."""

    name: str
    place: str
    state: State
    problem: str | None = None
    failure: Failure | None = None
    workers: int | None = None
    started: float | None = None
    finished: float | None = None
    checkpoints: list[Checkpoint] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    price: Price | None = None
