"""Runs one trainer: connects to the services, builds the model, restores, trains to the end."""

from __future__ import annotations

import contextlib
import ctypes
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

import torch

from umiak.errors import DamagedError, InputError, RetryError, StorageError
from umiak.messages.control import ServiceAddress
from umiak.messages.events import Alive, Event, Start
from umiak.pserver.codec import Restore
from umiak.pserver.process import tls_for
from umiak.rundir import checkpoint, generations, piece, snapshot
from umiak.rundir.reader import MISSING_SECONDS
from umiak.rundir.tensorfile import TensorFile
from umiak.spec.load import Loaded, settled
from umiak.spec.settings import Settings
from umiak.trainer import state
from umiak.trainer.forward import build, choose_device
from umiak.trainer.initial import load_dense
from umiak.trainer.job import Job, Stopped, mix
from umiak.trainer.records import Curves, Recorder
from umiak.trainer.saving import Saver
from umiak.trainer.services import LocalService, RemoteService
from umiak.trainer.session import Placed, Session
from umiak.wire import credentials, hello
from umiak.wire.address import Address
from umiak.wire.frames import Channel
from umiak.wire.hello import Member

CONNECT_SECONDS = 60.0
SUPERVISED_SECONDS = 180.0
"""A server that restores from a volume which hangs answers nobody. Where somebody supervises it, nobody else need give it up."""
TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""Names of settings in mallopt(3)."""
KEPT_BYTES = 1 << 30
log = logging.getLogger("umiak.trainer")


@dataclass(frozen=True)
class Assignment:
    """What a trainer is told when it is started. Without services it trains alone, in its own process."""

    trainer: int = 0
    trainers: int = 1
    """How many there are; 0 if only the servers know."""
    job: str = "umiak"
    generation: int = 0
    services: Sequence[ServiceAddress] = ()
    token: str = ""
    out: Path | None = None
    checkpoint: Path | None = None
    """What the job goes on from, the same for all its trainers; None: it begins at round 0."""
    first: bool = True
    """Whether nothing of this job has run before."""
    checkpoints: bool = True
    """Whether a run leaves checkpoints; snapshots it leaves in any case."""
    replaces: bool = False
    """It takes the place of a trainer that was lost while the others went on."""


def run(
    loaded: Loaded,
    settings: Settings,
    assignment: Assignment,
    report: Callable[[Event], None],
    stop_requested: Callable[[], bool],
    dots: TextIO | None = None,
) -> None:
    _keep_memory()
    with open_job(loaded, settings, assignment, report, stop_requested, dots) as job:
        for batch in job.batches():
            output, loss = job.run(batch)
            loss.backward()
            job.step(loss.detach(), output)


@contextlib.contextmanager
def open_job(
    loaded: Loaded,
    settings: Settings,
    assignment: Assignment,
    report: Callable[[Event], None],
    stop_requested: Callable[[], bool],
    dots: TextIO | None = None,
) -> Iterator[Job]:
    """A job that is ready to train: model built, servers set up or joined, checkpoint restored."""
    settings = settled(loaded, settings)
    log_config(loaded)
    device = choose_device(settings.use_gpu)
    torch.set_num_threads(settings.trainer_count)
    with _connected(settings, assignment) as (services, me):
        torch.manual_seed(settings.seed)
        model = build(loaded.config, device)
        source = snapshot.to_load(settings)
        if source is not None:
            # Every trainer does this: buffers and frozen parameters do not come from the servers.
            missing = settings.load_missing_parameter_strategy
            load_dense(source, dict(model.named_parameters()), model, missing)
        session = Session(model, services, device, averages=loaded.config.average is not None)
        if loaded.version:
            log.info("trainer mode: %s", "SgdSparseCpuTraining" if session.tables.specs else "Normal")
        saver = Saver(
            me.out,
            session,
            model,
            loaded,
            me.trainer,
            me.trainers,
            settings.seed,
            settings.mode,
            settings.save_only_one,
            report,
            me.generation,
            me.checkpoints,
        )
        found = me.checkpoint
        with _advising(me):
            if me.trainer == 0 and not me.replaces:
                _setup(session, loaded, settings, me, saver, source)
            rounds = session.pull()
            blob = _blob(found, me.trainer) if found is not None else b""
            if not me.replaces:
                _check_rounds(rounds, found, exact=settings.mode == "sync")
        torch.manual_seed(mix(settings.seed, me.trainer))
        curves = _curves(session, me)
        recorder = Recorder(report, curves, settings.log_period, settings.dot_period, dots)
        job = Job(loaded, model, session, settings, me.trainer, me.trainers, recorder, saver, stop_requested)
        if found is not None:
            job.restore(blob)
            log.info("going on from %s", found)
        elif settings.init_from is not None:
            state.unpack_buffers(_blob(checkpoint.find(settings.init_from), 0), model)
        # Whatever fails from now on fails in a round that is known.
        starts = me.trainer == 0 and me.first and not me.replaces
        report(_start_event(session, me) if starts else Alive(session.round))
        try:
            yield job
            session.close()
        except Stopped:
            session.close()
            raise


def _keep_memory() -> None:
    """Have malloc keep what a round frees for the next one: new pages for every large tensor cost 6 % of a round."""
    with contextlib.suppress(OSError, AttributeError):  # not every C library has this
        library = ctypes.CDLL(None)
        library.mallopt(MMAP_MAX, 0)
        library.mallopt(TRIM_THRESHOLD, KEPT_BYTES)


def log_config(loaded: Loaded) -> None:
    """What was said while the config was loaded, before there was a log."""
    for record in loaded.records:
        logging.getLogger(record.name).handle(record)
    for note in loaded.notes:
        log.warning("%s", note)


def _start_event(session: Session, assignment: Assignment) -> Start:
    return Start(
        workers=assignment.trainers,
        services=len(assignment.services),
        parameters=session.values.size,
        tables=len(session.tables.specs),
        out=str(assignment.out or ""),
        round=session.round,
    )


def _curves(session: Session, me: Assignment) -> Curves | None:
    """Trainer 0 keeps them, without what lies past the checkpoint it begins with."""
    if me.out is None or me.trainer != 0:
        return None
    generations.check(me.out, me.generation)
    return Curves(me.out, session.round)


@contextlib.contextmanager
def _connected(settings: Settings, assignment: Assignment) -> Iterator[tuple[list[Placed], Assignment]]:
    """The services of a job, and the assignment with what only they knew.

    Connections are closed at the end in any case, so that servers see who has gone.
    """
    if not assignment.services:
        yield [Placed(LocalService(), dense=True, rows=True)], assignment
        return
    addresses = [Address.parse(service.address) for service in assignment.services]
    directory = str(settings.tls) if settings.tls else None
    tls = tls_for(addresses, directory, settings.insecure, credentials.client_context)
    member = Member(assignment.job, assignment.generation, "trainer", assignment.trainer, assignment.trainers)
    token = assignment.token.encode()
    placed, trainers = [], assignment.trainers
    with contextlib.ExitStack() as channels:
        for index, (address, service) in enumerate(zip(addresses, assignment.services, strict=True)):
            context = None if address.is_unix else tls
            if service.worker is None:
                channel = hello.join(address, member, token, context, CONNECT_SECONDS)
            else:
                patience = SUPERVISED_SECONDS
                channel = hello.join(address, member, token, context, patience, service.worker, answer_seconds=patience)
            channels.callback(channel.close)
            trainers = _agreed(trainers, channel)
            log.info("pserver %d %s", index, address)
            placed.append(Placed(RemoteService(channel), service.dense, service.rows))
        yield placed, replace(assignment, trainers=trainers)


def _agreed(trainers: int, channel: Channel) -> int:
    """The number of trainers, told by the first service to one that did not know it."""
    told = int(channel.welcome["trainers"])
    if trainers and told != trainers:
        raise InputError(
            f"{channel.peer} was started with --num_gradient_servers={told}, other servers with {trainers}: "
            "start all of them with the number of trainers"
        )
    return told


def _setup(
    session: Session,
    loaded: Loaded,
    settings: Settings,
    assignment: Assignment,
    saver: Saver,
    source: Path | None,
) -> None:
    """Trainer 0 gives the services their first values: fresh, of a checkpoint, or of a snapshot."""
    found = assignment.checkpoint
    restore: Restore | None = None
    if found is not None:
        restore = Restore("checkpoint", str(found.resolve()), continues=True)
    elif settings.init_from is not None:
        restore = Restore("checkpoint", str(checkpoint.find(settings.init_from).resolve()), continues=False)
    elif source is not None:
        missing = settings.load_missing_parameter_strategy
        snapshot.check_tables(source, session.tables.specs, missing)
        # Dense values travel with the setup; only of tables do servers read the files, which they may not have.
        if session.tables.specs:
            restore = Restore("snapshot", str(source.resolve()), continues=False, missing=missing)
    log.info("Initing parameters..")
    config = loaded.config
    with _marking(assignment):
        if found is not None:
            checkpoint.check_identity(found, saver.identity)
        session.setup(
            assignment.trainers,
            settings.seed,
            config.optimizer,
            config.parameters,
            restore,
            settings.start_pass,
            settings.mode,
            settings.async_lagged_ratio_default,
            config.average,
        )
    log.info("Init parameters done.")


@contextlib.contextmanager
def _marking(me: Assignment) -> Iterator[None]:
    """Trainer 0 marks a checkpoint that is damaged, and the next attempt begins with the one before it."""
    try:
        yield
    except DamagedError:
        if me.checkpoint is not None and me.out is not None:
            generations.check(me.out, me.generation)
            checkpoint.mark_damaged(me.checkpoint)
        raise


@contextlib.contextmanager
def _advising(me: Assignment) -> Iterator[None]:
    """A volume that fails says nothing about a checkpoint: nothing is changed, and a user is told what they can do."""
    try:
        yield
    except StorageError as error:
        if me.checkpoint is None or me.out is None:
            raise
        raise StorageError(f"{error}; {checkpoint.advice(me.out, me.checkpoint)}") from error


def _check_rounds(rounds: list[int], found: Path | None, exact: bool) -> None:
    """All trainers and services must have begun with the same checkpoint.

    Without rounds, others may have got on since, and a service counts only the gradients that it did not drop: it is enough
    that it has not begun anew.
    """
    expected = checkpoint.read(found).round if found is not None else 0
    wrong = [each for each in rounds if (each != expected if exact else each == 0 < expected)]
    if wrong:
        begins = f"goes on from {found}, of round {expected}" if found else "begins at round 0"
        raise RetryError(
            f"a service is at round {wrong[0]}, but this trainer {begins}: start all trainers again, with the same --out"
        )


def _blob(directory: Path, trainer: int) -> bytes:
    """A trainer's own state, which service 0 keeps."""
    with TensorFile(directory / piece.file_name(0), missing_seconds=MISSING_SECONDS) as file:
        return file.one(piece.trainer_key(trainer)).tobytes()
