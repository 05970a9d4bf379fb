"""Runs one trainer: connects to the services, builds the model, begins where it should, trains to the end."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import TextIO

import torch

from umiak.messages.events import Alive, Event, Start
from umiak.rundir import about, checkpoint, generations, snapshot
from umiak.spec.load import Loaded, settled
from umiak.spec.settings import Settings
from umiak.system import keep_freed_memory
from umiak.trainer import beginning, state
from umiak.trainer.connecting import Connect, connected
from umiak.trainer.forward import build, choose_device
from umiak.trainer.initial import load_dense
from umiak.trainer.outline import outlined
from umiak.trainer.records import Curves, Recorder
from umiak.trainer.saving import Saver
from umiak.trainer.session import Session
from umiak.trainer.task import Assignment, Task
from umiak.trainer.trainer import Stopped, Trainer, mix

KEPT_BYTES = 1 << 30
log = logging.getLogger("umiak.trainer")

Report = Callable[[Event], None]


def run(
    loaded: Loaded,
    settings: Settings,
    assignment: Assignment,
    report: Report,
    stop_requested: Callable[[], bool],
    dots: TextIO | None = None,
    connect: Connect = connected,
) -> None:
    # New pages for every large tensor cost 6 % of a round.
    keep_freed_memory(KEPT_BYTES)
    with opened(loaded, settings, assignment, report, stop_requested, dots, connect) as trainer:
        for batch in trainer.batches():
            output, loss = trainer.run(batch)
            loss.backward()
            trainer.step(loss.detach(), output)


@contextlib.contextmanager
def opened(
    loaded: Loaded,
    settings: Settings,
    assignment: Assignment,
    report: Report,
    stop_requested: Callable[[], bool],
    dots: TextIO | None = None,
    connect: Connect = connected,
) -> Iterator[Trainer]:
    """A trainer that is ready to train: model built, servers set up or joined, checkpoint restored."""
    settings = settled(loaded, settings)
    log_config(loaded)
    device = choose_device(settings.use_gpu)
    torch.set_num_threads(settings.trainer_count)
    with connect(settings, assignment) as (services, assignment):
        task = Task(loaded, settings, assignment)
        model = _model(task, device)
        session = Session(model, services, device, averages=loaded.config.average is not None)
        if loaded.version:
            log.info("trainer mode: %s", "SgdSparseCpuTraining" if session.tables.specs else "Normal")
        saver = Saver(task, session, model, report)
        blob = beginning.begin(task, session, saver)
        torch.manual_seed(mix(settings.seed, task.trainer))
        curves, work = _curves(task, session, model), partial(session.work, task.trainer)
        recorder = Recorder(report, curves, settings.log_period, settings.dot_period, dots, work)
        trainer = Trainer(task, model, session, recorder, saver, stop_requested)
        _restore(task, trainer, blob)
        # Whatever fails from now on fails in a round that is known.
        starts = assignment.sets_up and assignment.first
        report(_start_event(session, assignment) if starts else Alive(session.round))
        try:
            yield trainer
            session.close()
        except Stopped:
            session.close()
            raise


def _model(task: Task, device: torch.device) -> torch.nn.Module:
    settings = task.settings
    torch.manual_seed(settings.seed)
    model = build(task.loaded.config, device)
    source = snapshot.to_load(settings)
    if source is not None:
        # Every trainer does this: buffers and frozen parameters do not come from the servers.
        load_dense(source, dict(model.named_parameters()), model, settings.load_missing_parameter_strategy)
    return model


def _restore(task: Task, trainer: Trainer, blob: bytes) -> None:
    """Put back what is a trainer's own: all of it when a run resumes, buffers alone in a new run."""
    if task.assignment.checkpoint is not None:
        trainer.restore(blob)
        log.info("resuming from %s", task.assignment.checkpoint)
    elif task.settings.init_from is not None:
        state.unpack_buffers(beginning.blob_of(checkpoint.find(task.settings.init_from), 0), trainer.model)


def log_config(loaded: Loaded) -> None:
    """What was said while the config was loaded, before there was a log."""
    for record in loaded.records:
        logging.getLogger(record.name).handle(record)
    for note in loaded.warnings:
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


def _curves(task: Task, session: Session, model: torch.nn.Module) -> Curves | None:
    """Trainer 0 keeps them, without what lies past the checkpoint it begins with."""
    out = task.assignment.out
    if out is None or task.trainer != 0:
        return None
    generations.check(out, task.assignment.generation)
    title = task.loaded.path.name if task.loaded.path else "model"
    drawn = outlined(title, model, session, not task.assignment.services)
    about.write(out, task.settings, task.loaded, task.assignment.trainers, drawn)
    return Curves(out, session.round)
