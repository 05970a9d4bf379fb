"""The index of streamed data that a run began with: kept below its output directory, named by its checkpoints, used by all.

So a file that is added later changes nothing in a run, and one that is altered is an error that names it. Trainers that have data
of their own, or no output directory in common, keep none.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from umiak.data.streaming.chunks import Index, decoded, encoded
from umiak.data.streaming.source import Stream
from umiak.errors import DamagedError, InputError
from umiak.files import atomic, exists, make_directory, names_in, read_bytes
from umiak.rundir import checkpoint, layout
from umiak.trainer.task import Task

KEY = "the data"
"""Under which a checkpoint names them."""


def keep(task: Task) -> None:
    """Trainer 0 writes down what a run begins with, before any other trainer reads a row."""
    directory = _directory(task)
    if directory is None or task.assignment.checkpoint is not None:
        return
    for name, source in _streams(task):
        make_directory(directory)
        for old in _kept(directory, name):
            (directory / old).unlink(missing_ok=True)
        with atomic(directory / _file(name, source.index.digest)) as file:
            file.write(encoded(source.index))


def use(task: Task) -> dict[str, dict[str, str]]:
    """Have the sources read what the run began with; what its checkpoints say of that."""
    directory = _directory(task)
    if directory is None:
        return {}
    found = task.assignment.checkpoint
    named = checkpoint.read(found).identity.get(KEY, {}) if found is not None else {}
    used = {}
    for name, source in _streams(task):
        if name in named:
            source.begin_with(_read(directory / _file(name, named[name]), found))
        elif found is None and (kept := _kept(directory, name)):
            source.begin_with(_read(directory / kept[-1], found))
        else:
            continue
        used[name] = source.index.digest
    return {KEY: used} if used else {}


def _directory(task: Task) -> Path | None:
    out = task.assignment.out
    return None if out is None or task.settings.own_data else out / layout.DATA_INDEX


def _streams(task: Task) -> Iterator[tuple[str, Stream]]:
    for name, source in (("train", task.loaded.config.train), ("test", task.loaded.config.test)):
        if isinstance(source, Stream):
            yield name, source


def _file(name: str, digest: str) -> str:
    return f"{name}-{digest}.json"


def _kept(directory: Path, name: str) -> list[str]:
    return [each for each in names_in(directory) if each.startswith(f"{name}-") and each.endswith(".json")]


def _read(path: Path, found: Path | None) -> Index:
    if not exists(path):
        raise InputError(
            f"{path}, which {found} names, is gone: put it back, or start a new run with --init-from {found}"
        )
    try:
        index = decoded(read_bytes(path))
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{path} is damaged: {error}") from None
    if path.name != _file(path.name.partition("-")[0], index.digest):
        raise DamagedError(f"{path} is damaged: its content is not what its name says")
    return index
