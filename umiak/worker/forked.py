"""Trainers as forks of a process that has imported torch and loaded the config once, for a local job and a pod alike."""

from __future__ import annotations

import dataclasses
import logging
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from umiak.messages.control import StartTrainer
from umiak.rundir import checkpoint, layout
from umiak.spec.load import Loaded
from umiak.spec.settings import Settings
from umiak.worker.child import Report, TrainerChild
from umiak.worker.supervisor import ForkTrainer, WorkerPlan

if TYPE_CHECKING:
    from umiak.trainer.task import Assignment

log = logging.getLogger("umiak.trainer")


def start_trainer(plan: WorkerPlan, settings: Settings, loaded: Loaded) -> ForkTrainer:
    """What forks the trainers of a worker, as the coordinator says."""
    from umiak.trainer.run import run

    settings = dataclasses.replace(settings, tls=Path(plan.tls) if plan.tls else None)

    def fork(start: StartTrainer, replaces: bool, close: list[int]) -> TrainerChild:
        def work(report: Report, stop_requested: Callable[[], bool], dots: TextIO) -> None:
            log.info("commandline: %s", shlex.join(sys.argv))
            run(loaded, settings, _assignment(plan, settings, start, replaces), report, stop_requested, dots)

        return TrainerChild(work, plan.directory / layout.TRAINER_LOG, close, plan.echo)

    return fork


def _assignment(plan: WorkerPlan, settings: Settings, start: StartTrainer, replaces: bool) -> Assignment:
    from umiak.trainer.task import Assignment

    assert plan.trainer is not None
    out = settings.save_dir
    named = out / layout.CHECKPOINTS / start.checkpoint if start.checkpoint else None
    return Assignment(
        trainer=plan.trainer,
        trainers=plan.trainers,
        job=plan.job,
        generation=start.generation,
        services=start.services,
        token=plan.token,
        out=out,
        # The others have trained on since the checkpoint of a lost one was named.
        checkpoint=checkpoint.select(out) if replaces else named,
        replaces=replaces,
        first=start.first,
    )


def warm_up() -> None:
    """Import and compile before forking what every trainer needs, so that it is done once."""
    import torch

    from umiak.nn import gather
    from umiak.pserver.placement import merge
    from umiak.trainer import run

    assert run is not None
    torch.set_num_threads(1)
    _, _, index = merge(torch.arange(4).numpy(), 2)
    rows, positions = torch.ones(4, 2, requires_grad=True), torch.from_numpy(index)
    bags = gather.bag(rows, positions, torch.tensor([0, 4]), mean=True)
    gather.scatter(index, rows.detach().numpy(), torch.zeros(4, 2).numpy())
    gather.scatter_bags(index, torch.tensor([0, 4]).numpy(), True, bags.detach().numpy(), torch.zeros(4, 2).numpy())
