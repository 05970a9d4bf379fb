"""Who runs what in a job on this machine: from settings to one plan per worker. Starts nothing."""

from __future__ import annotations

from pathlib import Path

from umiak.contract import ports
from umiak.messages.control import ServiceAddress
from umiak.rundir import layout
from umiak.spec.settings import Settings
from umiak.wire import credentials
from umiak.worker.supervisor import WorkerPlan, sources_of

JOB = "local"


def plan_workers(settings: Settings, rundir: Path, token: str) -> list[WorkerPlan]:
    """Who runs what: a server beside each trainer, or trainers first and then servers apart from them."""
    trainers = settings.workers
    apart = settings.servers is not None
    servers = settings.servers if settings.servers is not None else trainers
    count = trainers + servers if apart else trainers
    plans = []
    for index in range(count):
        server = index - trainers if apart else index
        sockets, addresses = _places(settings, rundir, server) if server >= 0 else ((), ())
        plans.append(
            WorkerPlan(
                index=index,
                workers=count,
                job=JOB,
                token=token,
                coordinator=f"unix:{rundir}/coordinator",
                trainers=trainers,
                trainer=index if index < trainers else None,
                addresses=addresses,
                beside=sockets if not apart else (),
                tls=str(credentials.of_worker(settings.tls, index)) if settings.tls else None,
                insecure=settings.insecure,
                directory=layout.node(settings.save_dir, index),
                sources=sources_of(settings),
                log_period_server=settings.log_period_server,
                replacements=settings.max_restarts if settings.mode == "async" else 0,
            )
        )
    return plans


def _places(settings: Settings, rundir: Path, server: int) -> tuple[tuple[str, ...], tuple[ServiceAddress, ...]]:
    """The unix sockets of a server's services, and their addresses for other workers: over TCP if that was asked for."""
    holds = ports.services(settings.ports_num, settings.ports_num_for_sparse)
    numbers = range(len(holds))
    sockets = tuple(f"unix:{rundir}/server-{server}-{number}" for number in numbers)
    first = settings.port + server * len(numbers)
    over_tcp = settings.transport == "tcp" or settings.tls is not None
    names = [f"127.0.0.1:{first + number}" for number in numbers] if over_tcp else sockets
    services = tuple(ServiceAddress(name, each.dense, each.rows) for name, each in zip(names, holds, strict=True))
    return sockets if over_tcp else (), services
