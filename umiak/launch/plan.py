"""Who runs what in a job on this machine: from settings to one plan per worker. Starts nothing."""

from __future__ import annotations

from pathlib import Path

from umiak.spec.settings import Settings
from umiak.wire import credentials
from umiak.worker.supervisor import WorkerPlan

JOB = "local"


def plan_workers(settings: Settings, rundir: Path, token: str) -> list[WorkerPlan]:
    """Who runs what: a server beside each trainer, or trainers first and then servers apart from them."""
    trainers = settings.workers
    apart = settings.servers is not None
    servers = settings.servers if settings.servers is not None else trainers
    count = trainers + servers if apart else trainers
    tls = settings.tls is not None
    plans = []
    for index in range(count):
        server = index - trainers if apart else index
        plans.append(
            WorkerPlan(
                index=index,
                workers=count,
                job=JOB,
                token=token,
                coordinator=f"unix:{rundir}/coordinator",
                trainers=trainers,
                trainer=index if index < trainers else None,
                addresses=_addresses(settings, rundir, server, tls) if server >= 0 else (),
                tls=str(credentials.of_worker(settings.tls, index)) if settings.tls else None,
                insecure=settings.insecure,
                directory=settings.save_dir / f"node_{index}",
                log_period_server=settings.log_period_server,
                replacements=settings.max_restarts if settings.mode == "async" else 0,
            )
        )
    return plans


def _addresses(settings: Settings, rundir: Path, server: int, tls: bool) -> tuple[tuple[str, bool, bool], ...]:
    dense, sparse = settings.ports_num, settings.ports_num_for_sparse
    services = []
    for number in range(dense + sparse):
        if settings.transport == "tcp" or tls:
            address = f"127.0.0.1:{settings.port + server * (dense + sparse) + number}"
        else:
            address = f"unix:{rundir}/server-{server}-{number}"
        services.append((address, number < dense, number >= dense or not sparse))
    return tuple(services)
