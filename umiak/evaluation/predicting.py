"""`umiak predict --data`: what a snapshot gives for the rows of any files, by several processes at once, as one Parquet file.

Chunks of the files are grouped into parts by their row counts alone, and batches never cross a part. So the output does not
depend on the number of workers, nor on how often it was interrupted.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from umiak import errors
from umiak.data.streaming.chunks import Index
from umiak.data.streaming.dealing import Piece
from umiak.data.streaming.reading import Reader, Rows
from umiak.data.streaming.source import Stream
from umiak.data.usercode import invoke
from umiak.errors import InputError, RetryError, UmiakError
from umiak.evaluation.loading import config_of, load_model
from umiak.evaluation.prediction_parts import Parts
from umiak.evaluation.prediction_source import fitting, source_of
from umiak.files import check_target
from umiak.rundir.layout import MODEL
from umiak.rundir.snapshot import Contents, find
from umiak.spec.config import Config
from umiak.spec.settings import Settings
from umiak.system import need_linux
from umiak.trainer import forward

PART_ROWS = 1 << 17
OnProgress = Callable[[int, int], None]
"""Called with the rows that are done, and all of them."""


class Predicted(NamedTuple):
    rows: int
    left_out: int
    """By the config's parse function."""


@dataclass(frozen=True)
class Task:
    """What all workers do: the same model on parts of the same files."""

    config: Config
    model: torch.nn.Module
    source: Stream
    keep: tuple[str, ...]
    parts: Parts
    identity: dict[str, Any]
    overwrite: bool


def predict(settings: Settings, output: Path, on_progress: OnProgress = lambda done, total: None) -> Predicted:
    """Write one row per row of the files in `settings.data`: the columns of --keep, then what the model gives."""
    need_linux("umiak predict --data", "write the outputs for the test data, without --data")
    if output.suffix != ".parquet":
        raise InputError(f"--output {output}: with --data the predictions are Parquet; name a file such as out.parquet")
    if output.exists() and not settings.overwrite:
        raise InputError(f"{output} exists: choose another --output or replace it with --overwrite")
    check_target(output)
    task = _task(settings, output)
    fresh = not task.parts.directory.exists()
    with task.parts.locked():
        try:
            rows = _run(task, settings.workers, on_progress)
        except InputError:
            if fresh and not any(task.parts.directory.glob("*.parquet")):
                task.parts.remove()
            raise
        return Predicted(written := task.parts.join(rows.parts), rows.rows - written)


def _task(settings: Settings, output: Path) -> Task:
    snapshot = find(settings.init_model_path or settings.save_dir, settings.test_pass)
    torch.set_num_threads(settings.trainer_count)
    loaded = config_of(snapshot, settings.config, settings.config_args, replace(settings, job="test"))
    model = load_model(snapshot, loaded.config)
    identity = {
        "snapshot": hashlib.sha256(Contents(snapshot).read(MODEL)).hexdigest(),
        "keep": list(settings.keep),
        "batch_size": loaded.config.batch_size,
        "data": list(settings.data),
    }
    source = source_of(loaded.config, settings.data)
    return Task(loaded.config, model, source, settings.keep, Parts(output), identity, settings.overwrite)


class _Whole(NamedTuple):
    """How much there is."""

    parts: int
    rows: int


def _run(task: Task, workers: int, on_progress: OnProgress) -> _Whole:
    """Have workers write all parts. Nothing of pyarrow or S3 is opened before they are forked."""
    context = multiprocessing.get_context("fork")
    following = context.Value("q", 0)
    started: list[tuple[ForkProcess, Connection]] = []
    try:
        for _ in range(workers):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(task, following, sender, os.getpid()))
            process.start()
            sender.close()
            started.append((process, receiver))
        return _watch(started, on_progress)
    finally:
        for process, receiver in started:
            process.kill()
            process.join()
            receiver.close()


def _watch(started: Sequence[tuple[ForkProcess, Connection]], on_progress: OnProgress) -> _Whole:
    """Hear the workers until the last has ended; what one of them fails with is raised."""
    whole, done = _Whole(0, 0), 0
    open_ = {receiver: process for process, receiver in started}
    while open_:
        for receiver in wait(list(open_)):
            assert isinstance(receiver, Connection)
            try:
                said, value = receiver.recv()
            except EOFError:
                process = open_.pop(receiver)
                process.join()
                if process.exitcode:
                    raise RetryError(
                        f"a worker of umiak predict ended with {_told(process.exitcode)}: run the same command again to continue"
                    ) from None
                continue
            if said == "failed":
                name, text = value
                raise getattr(errors, name, UmiakError)(text)
            if said == "whole":
                whole = _Whole(*value)
            else:
                done += value
            on_progress(done, whole.rows)
    return whole


def _told(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"signal {-code} ({signal.Signals(-code).name})"


def _work(task: Task, following: Any, sender: Connection, parent: int) -> None:
    """A worker: takes the next part that nobody has taken until there is none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it, and ends its workers
    try:
        for message in _messages(task, following):
            if os.getppid() != parent:
                os._exit(1)
            sender.send(message)
    except UmiakError as error:
        sender.send(("failed", (type(error).__name__, str(error))))
    except BrokenPipeError:
        os._exit(1)
    except Exception as error:
        sender.send(("failed", ("UmiakError", f"{error!r}\n{traceback.format_exc()}")))


def _messages(task: Task, following: Any) -> Iterator[tuple[str, Any]]:
    index = task.source.index
    parts = grouped(index.rows)
    identity = {**task.identity, "index": index.digest}
    with following.get_lock():
        task.parts.begin(identity, task.overwrite)
    yield "whole", (len(parts), int(index.rows.sum()))
    worker = _Worker(task, index)
    while True:
        with following.get_lock():
            number = following.value
            following.value += 1
        if number >= len(parts):
            return
        if not task.parts.is_done(number):
            task.parts.write(number, worker.table(parts[number]))
        yield "part", int(index.rows[parts[number]].sum())


def grouped(rows: np.ndarray, most: int = PART_ROWS) -> list[list[int]]:
    """Chunks by number in parts of neighbours: each has at most so many rows, or is one chunk."""
    parts: list[list[int]] = []
    held = 0
    for number, count in enumerate(rows.tolist()):
        if not parts or held + count > most:
            parts.append([])
            held = 0
        parts[-1].append(number)
        held += count
    return parts


class _Worker:
    """Reads parts and runs the model on them."""

    def __init__(self, task: Task, index: Index) -> None:
        self._task, self._index = task, index
        how = fitting(task.source.how, index)
        self._reader = Reader(index, how)
        if task.keep and not index.schema:
            raise InputError("--keep names columns, and lines of text have none: leave it out")
        if task.keep:
            self._reader.check_columns(task.keep, "--keep")

    def table(self, chunks: Sequence[int]) -> Any:
        """The rows of a part with their predictions; None where the parse function left out all."""
        import pyarrow

        pieces = [Piece(number, 0, self._index.chunks[number].rows) for number in chunks]
        rows = Rows.gathered(self._reader.read(pieces), np.arange(sum(piece.end for piece in pieces)))
        if rows.columns is None:
            return None
        columns: dict[str, Any] = {}
        if self._task.keep:
            kept = pyarrow.concat_tables([self._reader.table(number, self._task.keep) for number in chunks])
            kept = kept.take(rows.kept)
            columns = {name: kept[name].combine_chunks() for name in self._task.keep}
        for name, column in self._predicted(rows).items():
            if name in columns:
                raise InputError(f"--keep {name}: the predictions have a column of this name; rename it in the data")
            columns[name] = column
        return pyarrow.table(columns)

    def _predicted(self, rows: Rows) -> dict[str, Any]:
        assert rows.columns is not None
        size = self._task.config.batch_size
        found: list[dict[str, np.ndarray]] = []
        with torch.no_grad():
            for batch in rows.columns.cut(np.arange(len(rows.columns)), size, 0):
                output = invoke(self._task.model, forward.to_tensors(batch), blame=self._task.model.forward)
                if self._task.config.predict:
                    output = invoke(self._task.config.predict, output)
                found.append(_arrays(output, min(size, len(rows.columns) - size * len(found))))
        return {name: _column(np.concatenate([each[name] for each in found])) for name in found[0]}


def _arrays(output: Any, samples: int) -> dict[str, np.ndarray]:
    """The outputs by the names of their columns."""
    if isinstance(output, Mapping):
        named = {str(name): part for name, part in output.items()}
    elif isinstance(output, tuple):
        named = {f"prediction_{number}": part for number, part in enumerate(output)}
    else:
        named = {"prediction": output}
    arrays = {}
    for name, part in named.items():
        values = np.asarray(part.detach().cpu() if isinstance(part, torch.Tensor) else part)
        if values.ndim == 0 or len(values) != samples:
            raise InputError(
                f"predictions need one entry per sample: {samples} samples gave an output of shape {values.shape}; "
                "Config(predict=...) can choose what is written"
            )
        arrays[name] = values
    return arrays


def _column(values: np.ndarray) -> Any:
    import pyarrow

    if values.ndim == 1:
        return pyarrow.array(values)
    flat = values.reshape(len(values), -1)
    return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(flat.reshape(-1)), flat.shape[1])
