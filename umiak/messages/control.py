"""What a coordinator and its workers tell each other. A worker's messages carry the generation that they are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn

from umiak.errors import UmiakError
from umiak.messages import events
from umiak.messages.events import Event
from umiak.messages.failure import Failure
from umiak.messages.family import Family, coded

NO_GENERATION = -1
"""That of a worker which has not been told to prepare for one yet."""


@dataclass(frozen=True)
class ServiceAddress:
    """Where a service is and what it holds."""

    address: str
    dense: bool = True
    rows: bool = True
    worker: int | None = None
    """Whose certificate it must show, where it shows one."""


def _services(values: list[dict[str, Any]]) -> tuple[ServiceAddress, ...]:
    return tuple(ServiceAddress(**value) for value in values)


def _services_json(services: tuple[ServiceAddress, ...]) -> list[dict[str, Any]]:
    return [asdict(service) for service in services]


# From the coordinator to a worker.


@dataclass(frozen=True)
class Beat:
    """A heartbeat: I am here."""


@dataclass(frozen=True)
class Prepare:
    """End what runs, and start the server for this generation."""

    generation: int


@dataclass(frozen=True)
class StartTrainer:
    """All services are there. Train, from the checkpoint of this name, or from round 0."""

    generation: int
    services: tuple[ServiceAddress, ...] = field(metadata=coded(encode=_services_json, decode=_services))
    checkpoint: str | None
    first: bool
    """Whether nothing of this job has run before."""


@dataclass(frozen=True)
class Stop:
    """Write a checkpoint and end the trainer."""


@dataclass(frozen=True)
class DumpStacks:
    """Have every process write into its log where it is."""


@dataclass(frozen=True)
class Waiting:
    """What the job waits for, for the worker's log."""

    text: str


@dataclass(frozen=True)
class Finish:
    """The job is over for this worker. `cause` is what it ended by, if it failed."""

    code: int
    message: str
    cause: Failure | None = field(
        metadata=coded(encode=lambda cause: cause and cause.to_json(), decode=lambda value: value and Failure.of(value))
    )


Order = Beat | Prepare | StartTrainer | Stop | DumpStacks | Waiting | Finish
ORDERS: Family[Order] = Family(
    "type",
    {
        "beat": Beat,
        "prepare": Prepare,
        "start": StartTrainer,
        "stop": Stop,
        "dump": DumpStacks,
        "waiting": Waiting,
        "finish": Finish,
    },
)


# From a worker to the coordinator.


@dataclass(frozen=True)
class Here:
    """Ready to be told what to do."""


@dataclass(frozen=True)
class Busy:
    """A heartbeat. While a worker prepares, it also tells what it does, and how far it is: a number that grows."""

    phase: str | None = None
    done: int | None = None


@dataclass(frozen=True)
class Reported:
    """An event of this worker's trainer."""

    event: Event = field(metadata=coded(encode=events.encode, decode=events.decode))


@dataclass(frozen=True)
class Ready:
    """The server listens."""

    services: tuple[ServiceAddress, ...] = field(metadata=coded(encode=_services_json, decode=_services))


@dataclass(frozen=True)
class ProcessEnded:
    """The trainer or the server has ended. `kind` is the class of its error, `log` its last lines."""

    role: str
    code: int
    message: str
    kind: str
    log: str = ""


@dataclass(frozen=True)
class Leaving:
    """This worker was told to end: have a checkpoint written first."""


@dataclass(frozen=True)
class CannotPrepare:
    """This worker cannot take part, and why."""

    code: int
    message: str


Report = Here | Busy | Reported | Ready | ProcessEnded | Leaving | CannotPrepare
REPORTS: Family[Report] = Family(
    "type",
    {
        "here": Here,
        "beat": Busy,
        "event": Reported,
        "ready": Ready,
        "ended": ProcessEnded,
        "leaving": Leaving,
        "failed": CannotPrepare,
    },
)


def encode_order(order: Order) -> dict[str, Any]:
    return ORDERS.encode(order)


def decode_order(value: Mapping[str, Any]) -> Order:
    return ORDERS.decode(value) or _unknown(value)


def encode_report(report: Report, generation: int) -> dict[str, Any]:
    return {**REPORTS.encode(report), "generation": generation}


def decode_report(value: Mapping[str, Any]) -> tuple[Report, int]:
    """The report and the generation it is about."""
    return REPORTS.decode(value) or _unknown(value), int(value["generation"])


def _unknown(value: Mapping[str, Any]) -> NoReturn:
    """Coordinator and workers run the same version: a kind that one of them does not know is a defect."""
    raise UmiakError(f"a control message of unknown type {value.get('type')!r}")
