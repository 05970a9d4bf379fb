"""Trainers as forks of a process that has imported torch and loaded the config once, for a local job and a pod alike."""

from __future__ import annotations

import dataclasses
import logging
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from umiak.rundir import layout
from umiak.spec.load import Loaded
from umiak.spec.settings import Settings
from umiak.worker.child import Report, TrainerChild
from umiak.worker.supervisor import WorkerPlan

log = logging.getLogger("umiak.trainer")


def start_trainer(
    plan: WorkerPlan, settings: Settings, loaded: Loaded, note: dict[str, Any], close: list[int]
) -> TrainerChild:
    """Fork the trainer of a worker, as the coordinator's start note says."""
    from umiak.rundir import checkpoint
    from umiak.trainer.run import Assignment, ServiceAddress, run

    assert plan.trainer is not None
    settings = dataclasses.replace(settings, tls=Path(plan.tls) if plan.tls else None)
    assignment = Assignment(
        trainer=plan.trainer,
        trainers=plan.trainers,
        job=plan.job,
        generation=note["generation"],
        services=[ServiceAddress(**service) for service in note["services"]],
        token=plan.token,
        out=settings.save_dir,
        checkpoint=settings.save_dir / layout.CHECKPOINTS / note["checkpoint"] if note["checkpoint"] else None,
        replaces=note.get("replaces", False),
        first=note["first"],
    )

    def work(report: Report, stop_requested: Callable[[], bool], dots: TextIO) -> None:
        log.info("commandline: %s", shlex.join(sys.argv))
        # The others have trained on since theirs was named.
        newest = checkpoint.select(settings.save_dir) if assignment.replaces else assignment.checkpoint
        run(loaded, settings, dataclasses.replace(assignment, checkpoint=newest), report, stop_requested, dots)

    return TrainerChild(work, plan.directory / layout.TRAINER_LOG, close, plan.echo)


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
