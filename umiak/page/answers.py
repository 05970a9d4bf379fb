"""What the server sends: the shapes of web/src/api.ts, key by key. `tests/test_page_answers.py` compares the two."""

from __future__ import annotations

from typing import Literal, TypedDict

State = Literal["running", "silent", "done", "stopped", "failed", "unknown"]
Axis = Literal["round", "time", "pass"]
Group = Literal["cost", "speed", "metric", "table", "memory", "cpu", "work", "bytes"]
Kind = Literal["start", "restart", "checkpoint", "snapshot", "note", "failed", "done"]


class Metric(TypedDict):
    name: str
    higherIsBetter: bool
    value: float | None
    best: float | None
    bestPass: int | None


class Run(TypedDict):
    id: str
    name: str
    place: str
    source: Literal["directory", "cluster"]
    state: State
    problem: str | None
    started: float | None
    updated: float | None
    seconds: float | None
    passes: int | None
    round: int | None
    samples: int | None
    samplesPerSecond: float | None
    workers: int | None
    metric: Metric | None
    dollars: float | None


class Indexing(TypedDict):
    done: int
    found: int


class Runs(TypedDict):
    runs: list[Run]
    roots: list[str]
    indexing: Indexing | None
    problems: list[str]
    version: str


class Held(TypedDict):
    rows: float
    bytes: float


# `pass` is a word of Python, so this one is written as a call.
Pass = TypedDict(
    "Pass",
    {
        "pass": int,
        "round": int,
        "samples": int,
        "seconds": float,
        "time": float | None,
        "train": dict[str, float | None],
        "test": dict[str, float | None] | None,
        "tables": dict[str, dict[str, float | None]] | None,
        "services": list[Held] | None,
    },
)
# So are `from` here and in Series.
Span = TypedDict("Span", {"worker": int, "from": float, "to": float | None, "phase": str})


class Change(TypedDict):
    time: float
    worker: int | None
    kind: Kind
    text: str


class Failure(TypedDict):
    worker: int | None
    role: str
    cause: str
    advice: str | None
    time: float | None
    log: str


class Work(TypedDict):
    worker: int
    time: float
    rounds: int
    seconds: float
    computing: float
    waiting: float
    transfer: float
    data: float
    bytesSent: int
    bytesReceived: int


class Process(TypedDict):
    worker: int
    role: str
    memory: float
    cpu: float


class Checkpoint(TypedDict):
    name: str
    round: int
    time: float
    bytes: int


Snapshot = TypedDict("Snapshot", {"name": str, "pass": int, "time": float, "bytes": int, "best": bool})


class Log(TypedDict):
    name: str
    title: str
    bytes: int


class Config(TypedDict):
    file: str | None
    text: str | None
    flags: dict[str, str]


class Baseline(TypedDict):
    name: str
    metric: str
    value: float


class SeriesName(TypedDict):
    name: str
    group: Group
    points: int


class Slowest(TypedDict):
    worker: int
    share: float


class AtRisk(TypedDict):
    seconds: float
    rounds: int


class Command(TypedDict):
    title: str
    command: str


class Cost(TypedDict):
    dollars: float
    perHour: float
    perMillionSamples: float | None
    lostToRestarts: float
    text: str


class Detail(TypedDict):
    run: Run
    config: Config
    baseline: Baseline | None
    series: list[SeriesName]
    passes: list[Pass]
    spans: list[Span]
    changes: list[Change]
    failure: Failure | None
    work: list[Work]
    slowest: Slowest | None
    processes: list[Process]
    checkpoints: list[Checkpoint]
    snapshots: list[Snapshot]
    atRisk: AtRisk | None
    commands: list[Command]
    logs: list[Log]
    drawing: str | None
    cost: Cost | None


Series = TypedDict(
    "Series",
    {
        "name": str,
        "axis": Axis,
        "x": list[float],
        "y": list[float | None],
        "points": int,
        "from": float | None,
        "to": float | None,
    },
)


class Line(TypedDict):
    at: int
    level: str
    time: float | None
    text: str


class LogLines(TypedDict):
    lines: list[Line]
    start: int
    end: int
    size: int


class Named(TypedDict):
    id: str
    name: str


class ComparedFlag(TypedDict):
    name: str
    values: list[str | None]
    differs: bool


class ComparedConfig(TypedDict):
    values: list[str | None]
    difference: str


class Comparison(TypedDict):
    runs: list[Named]
    flags: list[ComparedFlag]
    config: ComparedConfig


class StreamUpdate(TypedDict):
    detail: Detail
    series: list[Series]


class ExportedRun(TypedDict):
    detail: Detail
    series: list[Series]
    logs: dict[str, LogLines] | None


class Exported(TypedDict):
    version: str
    written: float
    runs: list[ExportedRun]
