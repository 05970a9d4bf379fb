"""A run in Weights & Biases: flags and config arguments as its config, metrics by round, the final snapshot in its summary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import wandb

from umiak.messages.events import Pass, Round, scalars
from umiak.sinks.parameters import parameters


class WandbSink:
    """Its own process keeps what cannot be sent yet; with WANDB_MODE=offline, `wandb sync` sends it later."""

    def __init__(self, place: str, out: Path, about: dict[str, Any], run: str) -> None:
        entity, _, project = place.rpartition("/")
        self._run = wandb.init(
            project=project,
            entity=entity or None,
            name=out.name,
            id=run or None,
            resume="allow" if run else None,
            dir=out,
            config={**parameters(about), "config_text": about.get("config_text", "")},
            settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
        )
        self.run = str(self._run.id)

    def write(self, told: list[Round | Pass]) -> None:
        for event in told:
            self._run.log(scalars(event), step=event.round)

    def end(self, state: str, snapshot: str) -> None:
        self._run.summary["state"] = state
        if snapshot:
            self._run.summary["snapshot"] = snapshot
        self._run.finish(exit_code=0 if state == "done" else 1)
