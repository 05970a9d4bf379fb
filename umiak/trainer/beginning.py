"""What a training begins with: fresh values, a checkpoint or a snapshot. All trainers and services must begin with the same."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from umiak.errors import DamagedError, RetryError, StorageError
from umiak.pserver.codec import Restore
from umiak.rundir import checkpoint, generations, piece, snapshot
from umiak.rundir.reader import MISSING_SECONDS
from umiak.rundir.tensorfile import TensorFile
from umiak.spec.settings import Settings
from umiak.trainer import indices
from umiak.trainer.saving import Saver
from umiak.trainer.session import Session, Setup
from umiak.trainer.task import Assignment, Task

log = logging.getLogger("umiak.trainer")


def begin(task: Task, session: Session, saver: Saver) -> bytes:
    """Have the services hold their first values, and get them; this trainer's own part of the checkpoint, if there is one."""
    assignment = task.assignment
    found = assignment.checkpoint
    with _advising(assignment):
        if assignment.sets_up:
            indices.keep(task)
            _set_up(task, session, saver)
        rounds = session.pull()
        saver.identity |= indices.use(task)
        blob = blob_of(found, task.trainer) if found is not None else b""
        if not assignment.replaces:
            check_rounds(rounds, found, exact=task.settings.mode == "sync")
    return blob


def _set_up(task: Task, session: Session, saver: Saver) -> None:
    """Trainer 0 gives the services their first values."""
    settings, config = task.settings, task.loaded.config
    restore = _restored(task.assignment, settings, session)
    log.info("Initing parameters..")
    with _marking(task.assignment):
        if task.assignment.checkpoint is not None:
            checkpoint.check_identity(task.assignment.checkpoint, saver.identity, exact=settings.mode == "sync")
        setup = Setup(
            trainers=task.trainers,
            seed=settings.seed,
            optimizer=config.optimizer,
            parameters=config.parameters,
            start_pass=settings.start_pass,
            mode=settings.mode,
            lag_ratio=settings.async_lagged_ratio_default,
            average=config.average,
        )
        session.setup(setup, restore)
    log.info("Init parameters done.")


def _restored(assignment: Assignment, settings: Settings, session: Session) -> Restore | None:
    """What the services are to read; None if values that come with the setup are all."""
    found, source = assignment.checkpoint, snapshot.to_load(settings)
    if found is not None:
        return Restore("checkpoint", str(found.resolve()), continues=True)
    if settings.init_from is not None:
        directory = str(checkpoint.find(settings.init_from).resolve())
        return Restore("checkpoint", directory, continues=False)
    if source is not None:
        missing = settings.load_missing_parameter_strategy
        snapshot.check_tables(source, session.tables.specs, missing)
        # Dense values travel with the setup; only of tables do servers read the files, which they may not have.
        if session.tables.specs:
            return Restore("snapshot", str(source.resolve()), continues=False, missing=missing)
    return None


@contextlib.contextmanager
def _marking(assignment: Assignment) -> Iterator[None]:
    """Trainer 0 marks a checkpoint that is damaged, and the next attempt begins with the one before it."""
    try:
        yield
    except DamagedError:
        if assignment.checkpoint is not None and assignment.out is not None:
            generations.check(assignment.out, assignment.generation)
            checkpoint.mark_damaged(assignment.checkpoint)
        raise


@contextlib.contextmanager
def _advising(assignment: Assignment) -> Iterator[None]:
    """A volume that fails says nothing about a checkpoint: nothing is changed, and a user is told what they can do."""
    try:
        yield
    except StorageError as error:
        if assignment.checkpoint is None or assignment.out is None:
            raise
        raise StorageError(f"{error}; {checkpoint.advice(assignment.out, assignment.checkpoint)}") from error


def check_rounds(rounds: list[int], found: Path | None, exact: bool) -> None:
    """All trainers and services must have begun with the same checkpoint.

    Without rounds, others may have got on since, and a service counts only the gradients that it did not drop: it is enough
    that it has not begun anew.
    """
    expected = checkpoint.read(found).round if found is not None else 0
    wrong = [each for each in rounds if (each != expected if exact else each == 0 < expected)]
    if wrong:
        begins = f"resumes from {found}, of round {expected}" if found else "begins at round 0"
        raise RetryError(
            f"a service is at round {wrong[0]}, but this trainer {begins}: start all trainers again, with the same --out"
        )


def blob_of(directory: Path, trainer: int) -> bytes:
    """A trainer's own state in a checkpoint, which service 0 keeps."""
    with TensorFile(directory / piece.file_name(0), missing_seconds=MISSING_SECONDS) as file:
        return file.one(piece.trainer_key(trainer)).tobytes()
