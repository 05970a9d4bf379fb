"""What a pod works by: its environment (umiak/contract), checked for sense, and the settings of its training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from umiak.contract import environment, flags, ports
from umiak.contract.environment import Environment, Identity
from umiak.errors import InputError
from umiak.rundir import layout
from umiak.spec.flags import parse
from umiak.spec.settings import Settings


@dataclass(frozen=True)
class PodSettings:
    job: str
    uid: str
    index: int
    workers: int
    token: str
    coordinator: str
    port: int
    settings: Settings
    archive: Path | None
    """The packed config directory; None if it is in the working directory already."""
    credentials: Path
    shards: Path | None
    wait_seconds: float
    grace_seconds: float
    termination_log: Path

    @property
    def out(self) -> Path:
        return self.settings.save_dir

    @property
    def directory(self) -> Path:
        """Where this worker's logs go."""
        return layout.node(self.out, self.index)

    @property
    def secret(self) -> str:
        """What members of this job prove to each other: a job made anew under the same name is a different one."""
        return f"{self.token}.{self.uid}"


def read(environ: Mapping[str, str]) -> PodSettings:
    given, own = Environment.from_env(environ), Identity.from_env(environ)
    if own.index >= given.workers:
        raise InputError(
            f"{environment.INDEX}={own.index} is not one of {environment.WORKERS}={given.workers} workers: "
            "they are numbered from 0"
        )
    return PodSettings(
        job=given.job,
        uid=own.uid,
        index=own.index,
        workers=given.workers,
        token=own.token,
        coordinator=given.coordinator or f"{given.job}-0.{given.service or given.job}:{ports.COORDINATOR}",
        port=given.port,
        settings=_settings(given),
        archive=Path(given.config or environment.DEFAULT_CONFIG),
        credentials=Path(given.credentials or environment.DEFAULT_CREDENTIALS),
        shards=Path(given.shards) if given.shards else None,
        wait_seconds=given.wait_seconds,
        grace_seconds=given.grace_seconds,
        termination_log=termination_log(environ),
    )


def termination_log(environ: Mapping[str, str]) -> Path:
    """Where the termination message goes, also of a pod whose environment is wrong otherwise."""
    return Path(environ.get(environment.TERMINATION_LOG) or environment.DEFAULT_TERMINATION_LOG)


def _settings(given: Environment) -> Settings:
    """The flags of `umiak train` that came with the job, and what follows from being in a pod."""
    settings, plain = parse("train", [given.entry, *given.arguments]), Settings()
    for name in flags.BY_POD:
        if getattr(settings, name) != getattr(plain, name):
            raise InputError(f"{environment.ARGS} holds --{name}: a pod sets that itself; leave it out")
    if settings.seed == 0:
        raise InputError("--seed=0 would give every worker a different seed: write a number")
    if settings.job != "train":
        raise InputError(f"--job={settings.job}: a job in a cluster trains; test its snapshots with umiak test")
    # Data that were cut into shards are not cut again.
    own_data = settings.own_data or given.shards is not None
    out = Path(given.out).absolute()
    return replace(settings, workers=given.workers, save_dir=out, port=given.port, own_data=own_data)
