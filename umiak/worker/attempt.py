"""What an attempt at the training needs from the run directory, asked without waiting for the answer.

A volume may hang for a minute. The coordinator keeps in touch with its workers meanwhile; only the next attempt waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol, TypeVar

from umiak.errors import ReplacedError, UmiakError
from umiak.rundir import checkpoint
from umiak.rundir.places import Places

T = TypeVar("T")
log = logging.getLogger("umiak.worker")


class RunDirectory(Protocol):
    """Whoever keeps the run directory. Answers are UmiakErrors where it cannot be done; a ReplacedError: it is not ours."""

    def take(self, generation: int) -> Future[None]:
        """Make this generation ours, which is the next after the one that we have."""

    def select(self, generation: int) -> Future[str | None]:
        """The checkpoint this generation begins with, by its name; None: at round 0. All of `record` is on disk then."""

    def record(self, places: Places) -> None:
        """Write down who has which place, soon."""

    def finish(self) -> Future[None]:
        """Write down that the job has trained to its end."""


class Asked:
    """What the run directory was asked and has not answered yet. Each answer is given once; errors are raised."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self._taking: Future[None] | None = None
        self._selecting: Future[str | None] | None = None
        self._finishing: Future[None] | None = None

    @property
    def is_taking(self) -> bool:
        return self._taking is not None

    @property
    def is_selecting(self) -> bool:
        return self._selecting is not None

    @property
    def is_finishing(self) -> bool:
        return self._finishing is not None

    def take(self, generation: int) -> None:
        """Nobody was told of a generation that is still being taken: it serves the next attempt as well."""
        self._taking = self._taking or self.directory.take(generation)

    def select(self, generation: int) -> None:
        self._selecting = self.directory.select(generation)

    def forget_selection(self) -> None:
        self._selecting = None

    def finish(self) -> None:
        self._finishing = self.directory.finish()

    def taken(self) -> bool:
        if self._taking is None or not self._taking.done():
            return False
        taking, self._taking = self._taking, None
        taking.result()
        return True

    def selected(self) -> tuple[str | None] | None:
        if self._selecting is None or not self._selecting.done():
            return None
        selecting, self._selecting = self._selecting, None
        return (selecting.result(),)

    def finished(self) -> bool:
        """It stays so. What cannot be written down does not undo a training, unless the directory is another's."""
        if self._finishing is None or not self._finishing.done():
            return False
        if isinstance(error := self._finishing.exception(), ReplacedError):
            raise error
        if error is not None:
            log.warning("%s; the training is complete nevertheless", error)
        return True


def checkpoint_name(out: Path) -> str | None:
    found = checkpoint.select(out)
    return None if found is None else found.name


def at_once(work: Callable[[], T]) -> Future[T]:
    """The answer of one who can wait for the volume."""
    future: Future[T] = Future()
    try:
        future.set_result(work())
    except UmiakError as error:
        future.set_exception(error)
    return future
