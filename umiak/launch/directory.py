"""The run directory of a local job: its lock keeps others of this machine out, generations those of other machines."""

from __future__ import annotations

import secrets
from concurrent.futures import Future
from pathlib import Path

from umiak.rundir import checkpoint, generations
from umiak.rundir.places import Places
from umiak.worker.attempt import at_once, checkpoint_name


class LocalDirectory:
    """Every question is answered at once. A launcher that waits for its disk forgives its workers the same silence."""

    def __init__(self, out: Path) -> None:
        self.out, self._owner = out, secrets.token_hex(8)
        self.generation = generations.seize(out, self._owner)
        checkpoint.remove_unfinished(out)

    def take(self, generation: int) -> Future[None]:
        return at_once(lambda: generations.take(self.out, self._owner, generation))

    def select(self, generation: int) -> Future[str | None]:
        def select() -> str | None:
            generations.check(self.out, generation)
            return checkpoint_name(self.out)

        return at_once(select)

    def record(self, places: Places) -> None:
        """Workers of a local job end with their launcher: nobody comes back to another."""

    def finish(self) -> Future[None]:
        return at_once(lambda: None)
