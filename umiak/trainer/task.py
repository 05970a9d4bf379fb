"""What one trainer is to do: the config, the settings, and its place in the job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from umiak.messages.control import ServiceAddress
from umiak.spec.load import Loaded
from umiak.spec.settings import Settings


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
    """What the job resumes from, the same for all its trainers; None: it begins at round 0."""
    first: bool = True
    """Whether nothing of this job has run before."""
    checkpoints: bool = True
    """Whether a run leaves checkpoints; snapshots it leaves in any case."""
    replaces: bool = False
    """It takes the place of a trainer that was lost while the others continued."""

    @property
    def sets_up(self) -> bool:
        """Whether it gives the services their first values. One that replaces another finds them set up."""
        return self.trainer == 0 and not self.replaces


@dataclass(frozen=True)
class Task:
    loaded: Loaded
    settings: Settings
    assignment: Assignment

    @property
    def trainer(self) -> int:
        return self.assignment.trainer

    @property
    def trainers(self) -> int:
        return self.assignment.trainers

    @property
    def is_asynchronous(self) -> bool:
        """Whether trainers do not wait for each other in rounds. One alone has nobody to wait for."""
        return self.settings.mode == "async" and self.trainers > 1
