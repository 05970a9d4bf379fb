"""`paddle train` and `paddle pserver`: the two roles with the habits of 2016.

Snapshots and nothing else are saved, a run writes over the one before it, and every trainer reads its own data. The scripts of
that time know neither tokens nor certificates: all that their hosts must share is the token, and traffic that leaves a machine
is encrypted with certificates that follow from it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from umiak.errors import InputError, RetryError, described
from umiak.files import exists, names_in
from umiak.rundir import generations
from umiak.spec.settings import Settings
from umiak.wire import credentials
from umiak.wire.address import Address
from umiak.worker import roles, token

if TYPE_CHECKING:
    from umiak.spec.load import Loaded
    from umiak.trainer.task import Assignment

TOKEN_SECONDS = 60.0
LOOK_SECONDS = 0.2
PASS = re.compile(r"pass-\d{5}")
log = logging.getLogger("umiak.worker")


def pserver(settings: Settings) -> int:
    """Serve one job after another until told to end."""
    addresses = roles.listening_on(settings)
    secret = _server_token(addresses)
    roles.log_to_stderr()
    with _secured(settings, addresses, secret) as settings:
        return roles.serve(roles.server_options(settings, addresses, secret))


def train(settings: Settings) -> int:
    """Train with the servers of --pservers, or alone."""
    roles.log_to_stderr()
    with placed(settings) as (settings, assignment):
        from umiak.rundir.snapshot import check_start
        from umiak.trainer.trainer import Stopped

        loaded = load(settings)
        check_start(loaded.config.shapes, settings)
        assignment = _take_output(settings, assignment)
        try:
            roles.run_until_stopped(loaded, settings, assignment)
        except (Stopped, RetryError) as error:
            raise RetryError(f"{error}; {_saved(settings.save_dir, assignment.trainer)}") from error
    return 0


@contextlib.contextmanager
def placed(settings: Settings) -> Iterator[tuple[Settings, Assignment]]:
    """A trainer's place among the others, with the server that --start_pserver asks for beside it."""
    settings = replace(settings, checkpoint_minutes=0.0)
    if settings.local:
        settings, assignment = roles.assign(replace(settings, seed=settings.seed or time.time_ns() % (1 << 31)), "")
        yield settings, replace(assignment, checkpoints=False)
        return
    addresses = [address for address, _, _ in roles.services_of(settings)]
    settings = replace(settings, own_data=True)
    with contextlib.ExitStack() as stack:
        if settings.start_pserver:
            stack.enter_context(_server_beside(settings))
        secret = _trainer_token(addresses)
        settings = stack.enter_context(_secured(settings, addresses, secret))
        settings, assignment = roles.assign(settings, secret)
        yield settings, replace(assignment, checkpoints=False)


def load(settings: Settings) -> Loaded:
    """The config that was named, or that of the snapshot to begin with."""
    from umiak.evaluation.loading import config_of
    from umiak.rundir.snapshot import to_load
    from umiak.spec import load as configs

    if settings.config is not None:
        return configs.load(settings.config, settings.config_args, settings)
    source = to_load(settings)
    if source is None:
        raise InputError("name a config: paddle train --config=FILE, or a snapshot with --init_model_path=DIR")
    return config_of(source, None, settings.config_args, settings)


def _take_output(settings: Settings, assignment: Assignment) -> Assignment:
    """Trainer 0 takes the directory of snapshots. Those of an earlier run stay until this one has their like."""
    from umiak.rundir import checkpoint, prepare

    out = settings.save_dir
    if assignment.trainer != 0:
        return assignment
    if checkpoint.stored(out):
        raise InputError(
            f"{out} holds checkpoints of umiak train, which would no longer fit to its snapshots: choose another --save_dir"
        )
    if any(name.startswith("pass-") for name in names_in(out)) and not settings.start_pass:
        log.warning("%s holds the snapshots of an earlier run: each is replaced when this run has come as far", out)
    prepare.make(out)
    return replace(assignment, generation=generations.seize(out, secrets.token_hex(8)))


def _saved(out: Path, trainer: int) -> str:
    """Where a run that was stopped can continue; trainer 0 knows which passes there are."""
    if trainer != 0:
        return "trainer 0 says which --start_pass continues"
    found = [name for name in names_in(out) if PASS.fullmatch(name) and exists(out / name / "done")]
    if not found:
        return f"no pass is in {out}, so it starts from the beginning"
    last = int(max(found).removeprefix("pass-"))
    return f"the last pass in {out} is {last}: start all trainers again with --start_pass={last + 1}"


def _job_file() -> Path | None:
    """In the pods of the tutorials, a file on the volume that all of them share; elsewhere the user's own."""
    volume, job = os.environ.get("JOB_PATH"), os.environ.get("JOB_NAME")
    return Path(volume, job, ".umiak", "paddle-token") if volume and job else None


def _server_token(addresses: Sequence[Address]) -> str:
    secret, told = token.for_server(addresses, _job_file())
    if told:
        log.warning("%s", f"wrote the job's token to {_job_file()}" if _job_file() else told)
    return secret


def _trainer_token(addresses: Sequence[Address]) -> str:
    """In a pod, where a server is started beside each trainer, the first of them writes it: that may take a while."""
    file, deadline = _job_file(), time.monotonic() + TOKEN_SECONDS
    while file is not None and token.needed(addresses) and not token.found(file) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return token.for_trainer(addresses, file)


@contextlib.contextmanager
def _secured(settings: Settings, addresses: Sequence[Address], secret: str) -> Iterator[Settings]:
    """Settings with certificates for these addresses, unless the user has said what to do about TLS."""
    if settings.tls is not None or settings.insecure or token.needed(addresses) is None:
        yield settings
        return
    with tempfile.TemporaryDirectory(prefix="umiak-") as directory:
        credentials.write_from_token(Path(directory), secret, settings.trainer_id)
        yield replace(settings, tls=Path(directory))


@contextlib.contextmanager
def _server_beside(settings: Settings) -> Iterator[None]:
    """A server in a process of its own, which ends with this one."""
    addresses = roles.listening_on(settings)
    secret = _server_token(addresses)
    settings = replace(settings, num_gradient_servers=settings.num_gradient_servers or 1, save_dir=Path())
    with _secured(settings, addresses, secret) as settings:
        options = roles.server_options(settings, addresses, secret)
        with subprocess.Popen(
            [sys.executable, "-m", "umiak.worker.server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdin is not None and server.stdout is not None
            # Closing its input, as the end of this process does, ends it.
            server.stdin.write(json.dumps(options.to_json()) + "\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline() or '{"message": "the parameter server did not start"}')
            if "message" in answer:
                raise described(answer)
            try:
                yield
            finally:
                server.stdin.close()
