"""What a pod is told by its environment: the names, and both directions side by side. docs/pod-contract.md lists all of it.

The values are checked for their form here; what they mean for a training is umiak/pod/settings.py's work.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from umiak.contract import ports
from umiak.errors import InputError

JOB = "UMIAK_JOB"
WORKERS = "UMIAK_WORKERS"
SERVICE = "UMIAK_SERVICE"
COORDINATOR = "UMIAK_COORDINATOR"
PORT = "UMIAK_PORT"
OUT = "UMIAK_OUT"
ENTRY = "UMIAK_ENTRY"
ARGS = "UMIAK_ARGS"
WAIT_SECONDS = "UMIAK_WAIT_SECONDS"
GRACE_SECONDS = "UMIAK_GRACE_SECONDS"
HOME = "HOME"
DATA = "UMIAK_DATA"
SHARDS = "UMIAK_SHARDS"
CONFIG = "UMIAK_CONFIG"
CREDENTIALS = "UMIAK_CREDENTIALS"
TERMINATION_LOG = "UMIAK_TERMINATION_LOG"
SHARED = (
    JOB,
    WORKERS,
    SERVICE,
    COORDINATOR,
    PORT,
    OUT,
    ENTRY,
    ARGS,
    WAIT_SECONDS,
    GRACE_SECONDS,
    HOME,
    DATA,
    SHARDS,
    CONFIG,
    CREDENTIALS,
    TERMINATION_LOG,
)
"""The same for all pods of a job."""

INDEX = "JOB_COMPLETION_INDEX"
JOB_UID = "UMIAK_JOB_UID"
TOKEN = "UMIAK_TOKEN"
OWN = (INDEX, JOB_UID, TOKEN)
"""Filled in by Kubernetes when it starts a pod."""

DEFAULT_WAIT_SECONDS = 600
DEFAULT_GRACE_SECONDS = 120
DEFAULT_CONFIG = "/umiak/config/config.tar.gz"
DEFAULT_CREDENTIALS = "/umiak/credentials"
DEFAULT_TERMINATION_LOG = "/dev/termination-log"


@dataclass(frozen=True)
class Environment:
    """What all pods of a job are told. What is None has the default of docs/pod-contract.md."""

    job: str
    workers: int
    out: str
    entry: str
    arguments: tuple[str, ...] = ()
    service: str | None = None
    coordinator: str | None = None
    port: int = ports.FIRST
    wait_seconds: int = DEFAULT_WAIT_SECONDS
    grace_seconds: int = DEFAULT_GRACE_SECONDS
    home: str | None = None
    data: str | None = None
    shards: str | None = None
    config: str | None = None
    credentials: str | None = None
    termination_log: str | None = None

    def to_env(self) -> dict[str, str]:
        values = {
            JOB: self.job,
            WORKERS: str(self.workers),
            SERVICE: self.service,
            COORDINATOR: self.coordinator,
            PORT: str(self.port),
            OUT: self.out,
            ENTRY: self.entry,
            ARGS: json.dumps(self.arguments),
            WAIT_SECONDS: str(self.wait_seconds),
            GRACE_SECONDS: str(self.grace_seconds),
            HOME: self.home,
            DATA: self.data,
            SHARDS: self.shards,
            CONFIG: self.config,
            CREDENTIALS: self.credentials,
            TERMINATION_LOG: self.termination_log,
        }
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Environment:
        return cls(
            job=_text(environ, JOB),
            workers=_whole(environ, WORKERS, 1),
            service=environ.get(SERVICE) or None,
            coordinator=environ.get(COORDINATOR) or None,
            port=_whole(environ, PORT, 1, ports.FIRST),
            out=_text(environ, OUT),
            entry=_text(environ, ENTRY),
            arguments=_arguments(environ),
            wait_seconds=_whole(environ, WAIT_SECONDS, 1, DEFAULT_WAIT_SECONDS),
            grace_seconds=_whole(environ, GRACE_SECONDS, 1, DEFAULT_GRACE_SECONDS),
            home=environ.get(HOME) or None,
            data=environ.get(DATA) or None,
            shards=environ.get(SHARDS) or None,
            config=environ.get(CONFIG) or None,
            credentials=environ.get(CREDENTIALS) or None,
            termination_log=environ.get(TERMINATION_LOG) or None,
        )


@dataclass(frozen=True)
class Identity:
    """What tells a pod from the others of its job, and its job from others."""

    index: int
    uid: str
    token: str = field(repr=False)

    def to_env(self) -> dict[str, str]:
        return {INDEX: str(self.index), JOB_UID: self.uid, TOKEN: self.token}

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Identity:
        return cls(index=_whole(environ, INDEX, 0), uid=_text(environ, JOB_UID), token=_text(environ, TOKEN))


def _text(environ: Mapping[str, str], name: str) -> str:
    if not environ.get(name):
        raise InputError(f"{name} is not set: a pod is started by umiak job submit, which sets it")
    return environ[name]


def _whole(environ: Mapping[str, str], name: str, least: int, default: int | None = None) -> int:
    text = environ.get(name) or ("" if default is None else str(default)) or _text(environ, name)
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise InputError(f"{name}={text!r} is not a whole number of at least {least}")
    return int(text)


def _arguments(environ: Mapping[str, str]) -> tuple[str, ...]:
    text = environ.get(ARGS) or "[]"
    try:
        flags = json.loads(text)
    except ValueError:
        flags = None
    if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
        raise InputError(f'{ARGS}={text!r} is not a JSON list of flags: write ["--passes=10"]')
    return tuple(flags)
