"""What a pod is told by its environment: checked once, typed from then on. docs/pod-contract.md lists all of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from umiak.errors import InputError
from umiak.rundir import layout
from umiak.spec.flags import parse
from umiak.spec.settings import Settings

COORDINATOR_PORT = 7163
OWN_FLAGS = ("workers", "servers", "local", "save_dir", "resume", "transport", "tls", "insecure", "port")
"""Flags of `umiak train` that a pod sets itself."""


@dataclass(frozen=True)
class Environment:
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
        """What members of this job prove to each other: a job made anew under the same name is another one."""
        return f"{self.token}.{self.uid}"


def read(environ: Mapping[str, str]) -> Environment:
    job = _text(environ, "UMIAK_JOB")
    workers = _whole(environ, "UMIAK_WORKERS", 1)
    index = _whole(environ, "JOB_COMPLETION_INDEX", 0)
    if index >= workers:
        raise InputError(f"JOB_COMPLETION_INDEX={index} is not one of UMIAK_WORKERS={workers} workers: they go from 0")
    service = environ.get("UMIAK_SERVICE") or job
    port = _whole(environ, "UMIAK_PORT", 1, "7164")
    return Environment(
        job=job,
        uid=_text(environ, "UMIAK_JOB_UID"),
        index=index,
        workers=workers,
        token=_text(environ, "UMIAK_TOKEN"),
        coordinator=environ.get("UMIAK_COORDINATOR") or f"{job}-0.{service}:{COORDINATOR_PORT}",
        port=port,
        settings=_settings(environ, workers, port),
        archive=Path(environ.get("UMIAK_CONFIG") or "/umiak/config/config.tar.gz"),
        credentials=Path(environ.get("UMIAK_CREDENTIALS") or "/umiak/credentials"),
        shards=Path(environ["UMIAK_SHARDS"]) if environ.get("UMIAK_SHARDS") else None,
        wait_seconds=_whole(environ, "UMIAK_WAIT_SECONDS", 1, "600"),
        grace_seconds=_whole(environ, "UMIAK_GRACE_SECONDS", 1, "120"),
        termination_log=Path(environ.get("UMIAK_TERMINATION_LOG") or "/dev/termination-log"),
    )


def _settings(environ: Mapping[str, str], workers: int, port: int) -> Settings:
    """The flags of `umiak train` that came with the job, and what follows from being in a pod."""
    text = environ.get("UMIAK_ARGS") or "[]"
    try:
        flags = json.loads(text)
        if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
            raise ValueError
    except ValueError:
        raise InputError(f'UMIAK_ARGS={text!r} is not a JSON list of flags: write ["--passes=10"]') from None
    entry = _text(environ, "UMIAK_ENTRY")
    settings, plain = parse("train", [entry, *flags]), Settings()
    for name in OWN_FLAGS:
        if getattr(settings, name) != getattr(plain, name):
            raise InputError(f"UMIAK_ARGS holds --{name}: a pod sets that itself; leave it out")
    if settings.seed == 0:
        raise InputError("--seed=0 would give every worker another seed: write a number")
    if settings.job != "train":
        raise InputError(f"--job={settings.job}: a job in a cluster trains; test its snapshots with umiak test")
    out = Path(_text(environ, "UMIAK_OUT")).absolute()
    # Data that were cut into shards are not cut again.
    own_data = settings.own_data or bool(environ.get("UMIAK_SHARDS"))
    return replace(settings, workers=workers, save_dir=out, port=port, own_data=own_data)


def _text(environ: Mapping[str, str], name: str) -> str:
    if not environ.get(name):
        raise InputError(f"{name} is not set: a pod is started by umiak job submit, which sets it")
    return environ[name]


def _whole(environ: Mapping[str, str], name: str, least: int, default: str = "") -> int:
    text = environ.get(name) or default or _text(environ, name)
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise InputError(f"{name}={text!r} is not a whole number of at least {least}")
    return int(text)
