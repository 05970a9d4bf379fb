"""What a training tells of itself: the same events go through pipes, to other processes and pods, and into metrics.jsonl.

A pod prints them as lines that begin with `@umiak `; docs/pod-contract.md says which. Keys are part of that contract.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from umiak.messages.family import Family, coded

Values = Mapping[str, float]
"""Cost and metrics by name."""


@dataclass(frozen=True)
class Start:
    """Training begins for the first time."""

    workers: int
    services: int
    parameters: int
    tables: int
    out: str
    round: int


@dataclass(frozen=True)
class Alive:
    """A trainer works, though it completes no round: it restores, or tests."""

    round: int | None = None


@dataclass(frozen=True)
class Phase:
    """What a worker does now."""

    worker: int
    phase: str


@dataclass(frozen=True)
class Round:
    """A round was completed; not every one is told. `cost` is its mean over all trainers."""

    pass_id: int = field(metadata=coded("pass"))
    batch: int
    round: int
    cost: float
    samples_per_s: float


@dataclass(frozen=True)
class Work:
    """Where a worker's time went in its last rounds; the four parts add up to `seconds`."""

    worker: int
    round: int
    rounds: int
    seconds: float
    computing: float
    waiting: float
    """For other workers."""
    transfer: float
    """Sending and receiving, and the servers' own work."""
    data: float
    """Waiting for the next batch."""
    bytes_sent: int
    bytes_received: int


@dataclass(frozen=True)
class Processes:
    """Memory in bytes and share of a core of a worker's processes, by role."""

    worker: int
    processes: Mapping[str, Values]


@dataclass(frozen=True)
class Pass:
    """A pass has ended. `tables` has statistics of each, `dropped` the share of gradients that were too old."""

    pass_id: int = field(metadata=coded("pass"))
    round: int
    samples: int
    train: Values
    test: Values | None
    tables: Mapping[str, Values] | None = None
    services: tuple[Values, ...] | None = None
    """Rows and bytes in each service that holds rows."""
    dropped: float | None = None
    seconds: float = 0.0
    rows: int | None = None
    """Of streamed data: how many were read in this pass, with those that the parse function left out."""
    used: int | None = None


@dataclass(frozen=True)
class Snapshot:
    path: str


@dataclass(frozen=True)
class Checkpoint:
    path: str
    round: int


@dataclass(frozen=True)
class Restart:
    """All workers begin again, as this generation, because of what happened to this worker."""

    generation: int
    worker: int
    cause: str


@dataclass(frozen=True)
class Notice:
    """A line for people."""

    text: str


@dataclass(frozen=True)
class Baseline:
    """What a simple rule reaches in a metric of the test."""

    name: str
    metric: str
    value: float


def _baseline(value: Mapping[str, Any] | None) -> Baseline | None:
    return Baseline(value["name"], value["metric"], value["value"]) if value else None


def _baseline_json(baseline: Baseline | None) -> dict[str, Any] | None:
    return vars(baseline) if baseline else None


@dataclass(frozen=True)
class Compared:
    """The baseline of a run, beside its curves."""

    baseline: Baseline = field(metadata=coded(encode=_baseline_json, decode=_baseline))
    round: int = 0


def _passes(values: list[dict[str, Any]]) -> tuple[Pass, ...]:
    return tuple(event for event in map(decode, values) if isinstance(event, Pass))


@dataclass(frozen=True)
class Done:
    """Training is over; `passes` are all of the run's, also those before it was resumed."""

    seconds: float
    snapshot: str
    plot: str
    passes: tuple[Pass, ...] = field(
        metadata=coded(encode=lambda passes: [encode(each) for each in passes], decode=_passes)
    )
    baseline: Baseline | None = field(metadata=coded(encode=_baseline_json, decode=_baseline))


@dataclass(frozen=True)
class Failed:
    """A job has failed, or was asked to stop (`reason`). Where a worker's failure ended it: whose, and its last lines."""

    message: str = ""
    code: int | None = None
    worker: int | None = None
    role: str | None = None
    reason: str | None = None
    log: str | None = None


@dataclass(frozen=True)
class Ended:
    """A trainer's last word to its supervisor. `kind` is the class of its error, if it raised one of ours."""

    message: str
    kind: str


Event = (
    Start
    | Alive
    | Phase
    | Round
    | Work
    | Processes
    | Pass
    | Snapshot
    | Checkpoint
    | Restart
    | Notice
    | Compared
    | Done
    | Failed
    | Ended
)
FAMILY: Family[Event] = Family(
    "event",
    {
        "start": Start,
        "alive": Alive,
        "phase": Phase,
        "round": Round,
        "work": Work,
        "processes": Processes,
        "pass": Pass,
        "snapshot": Snapshot,
        "checkpoint": Checkpoint,
        "restart": Restart,
        "note": Notice,
        "baseline": Compared,
        "done": Done,
        "failed": Failed,
        "ended": Ended,
    },
)


def encode(event: Event) -> dict[str, Any]:
    return FAMILY.encode(event)


def decode(value: Mapping[str, Any]) -> Event | None:
    """None for a kind that this version does not know."""
    return FAMILY.decode(value)


def encode_line(event: Event, now: datetime | None = None) -> bytes:
    """A line of a file or a pipe; with `now` it says when."""
    time = {"time": stamp(now)} if now else {}
    return json.dumps({**encode(event), **time}).encode() + b"\n"


def scalars(event: Pass | Round) -> dict[str, float]:
    """What programs that draw curves show of an event, by the names it has there."""
    if isinstance(event, Round):
        return {"round/cost": event.cost, "round/samples_per_s": event.samples_per_s}
    groups = {"train": event.train, "test": event.test or {}}
    groups |= {f"tables/{table}": values for table, values in (event.tables or {}).items()}
    return {f"{group}/{name}": value for group, values in groups.items() for name, value in values.items()}


def stamp(when: datetime) -> str:
    """A time as all lines have it: UTC, with milliseconds."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def decode_lines(data: bytes) -> list[Event]:
    """The events in whole lines. A job that was killed may have left half a line, which is passed over."""
    events = []
    for line in data.splitlines():
        try:
            event = decode(json.loads(line))
        except (ValueError, TypeError, AttributeError):
            continue
        if event is not None:
            events.append(event)
    return events


def round_of(event: Event) -> int | None:
    """The round that an event belongs to, if it belongs to one."""
    return getattr(event, "round", None)


def round_in_line(line: bytes) -> int | None:
    """The same of a line, also one that a later version wrote; None if it tells of no round or is broken."""
    try:
        return int(json.loads(line)["round"])
    except (ValueError, KeyError, TypeError):
        return None
