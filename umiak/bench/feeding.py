"""The data workloads: the model of `ctr` fed from memory, from Parquet here, and from S3; and the reader alone.

All feed the same trainers, and every system shuffles: `limit` holds the whole table in every trainer and permutes it in every
pass. Windows are small, so that reading is spread evenly over turns of a second.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from umiak.bench.ours import Endless, Make, job, of_workload
from umiak.bench.run import Run
from umiak.data.columns import Columns
from umiak.data.streaming.dealing import Deal
from umiak.data.streaming.source import Stream, stream
from umiak.spec.config import Shard, Source
from umiak.spec.settings import Settings
from umiak.system import keep_freed_memory

ROWS = 600_000
FILES, GROUP = 6, 20_000
WINDOW = 1 << 14
READER_ROWS = 400_000
READER_BATCH = 2048
LATENCY, BYTES_PER_S = 0.05, 200e6
BUCKET = "bench"
TRAIN, READER = "train-*.parquet", "reader-*.parquet"
OPENED, MIDDLE = Shard(1, 2), 80
"""A shard, and a batch in the middle of its second window."""


def write(workload: str, directory: Path) -> None:
    """The data of a workload, for all its systems."""
    from umiak.data import ctr

    if workload == "data-ctr":
        table = ctr.synthetic(ROWS, seed=0)
        np.savez(directory / "table.npz", **{name: table[name] for name in table.names})
        for name, content in ctr.parquet_files(table, "train", ROWS // FILES, GROUP).items():
            (directory / name).write_bytes(content)
    elif workload != "data-memory":
        _write_columns(directory)


def _write_columns(directory: Path) -> None:
    """A column for each of 13 numbers and 26 ids, and the label."""
    import pyarrow
    from pyarrow import parquet

    from umiak.data import ctr

    table = ctr.synthetic(READER_ROWS, seed=0)
    columns = {f"dense_{number}": table["dense"][:, number] for number in range(ctr.DENSE)}
    columns |= {f"id_{number}": table["ids"][:, number] for number in range(ctr.FEATURES)}
    whole = pyarrow.table({**columns, "label": table["label"]})
    each = READER_ROWS // 4
    for number in range(4):
        path = directory / f"reader-{number}.parquet"
        parquet.write_table(whole.slice(number * each, each), path, row_group_size=each // 2)


class Passes(Endless):
    """A source read pass after pass for ever, and the meter of the trainer."""

    def __init__(self, source: Source, run: Run, make: Make) -> None:
        super().__init__(run, make)
        self._source = source

    def batches(self, size: int, shard: Shard, seed: int | None, start: int = 0) -> Iterator[dict[str, Any]]:
        self._meter = self.run.meter(shard.index)
        for number in itertools.count():
            yield from self._source.batches(size, shard, number)


def train(run: Run, source: Source) -> None:
    """A job of the launcher on a source."""
    os.environ["XDG_CACHE_HOME"] = str(run.directory / "cache")
    settings = Settings(workers=run.workers, save_dir=run.directory / "out")
    job(run, settings, of_workload(run), partial(Passes, source))


def memory(run: Run) -> None:
    with np.load(run.data / "table.npz") as file:
        table = Columns(dict(file))
    train(run, table)


def parquet(run: Run) -> None:
    train(run, stream(run.data / TRAIN, window=WINDOW))


def s3(run: Run) -> None:
    from umiak.bench.peers import s3 as peer

    with peer.started(run.data, TRAIN, BUCKET, LATENCY, BYTES_PER_S) as port:
        os.environ.update(peer.environment(port))
        train(run, stream(f"s3://{BUCKET}/{TRAIN}", window=WINDOW))


def scan(run: Run) -> dict[str, Any]:
    """pyarrow's own reading of all columns to NumPy, in the order of the files."""
    from pyarrow import dataset

    files = sorted(str(path) for path in run.data.glob(READER))

    def once() -> int:
        rows = 0
        for batch in dataset.dataset(files).to_batches(use_threads=False):
            arrays = [column.to_numpy() for column in batch.columns]
            rows += len(arrays[0])
        return rows

    return _per_core(run, once)


def read(run: Run) -> dict[str, Any]:
    """The same as batches of a shuffled stream."""
    os.environ["XDG_CACHE_HOME"] = str(run.directory / "cache")
    source = stream(run.data / READER, window=1 << 16)

    def once() -> int:
        return sum(len(batch["label"]) for batch in source.batches(READER_BATCH, Shard(), 1))

    return _per_core(run, once)


def _per_core(run: Run, once: Callable[[], int]) -> dict[str, Any]:
    """Rows per second of processor time, of all threads together. Freed memory is kept, as in a trainer."""
    keep_freed_memory(1 << 30)
    once()
    began, cpu, rows = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - began < run.seconds:
        rows += once()
    return {"samples_per_s": rows / (time.process_time() - cpu), "unit": "rows/s per core"}


def one_window(run: Run) -> dict[str, Any]:
    """A window of a shard read by itself: all that opening the shard there may cost."""
    source = _written_stream(run)
    deal = Deal(source.reader.chosen.counts, READER_BATCH, OPENED, 5, source.window)
    return _opens(run, lambda: source.read_window(deal, deal.first_window(MIDDLE)))


def in_the_middle(run: Run) -> dict[str, Any]:
    """The first batch of a shard in the middle of a pass."""
    source = _written_stream(run)

    def opened() -> None:
        batches = source.batches(READER_BATCH, OPENED, 5, MIDDLE)
        next(batches)
        batches.close()  # type: ignore[attr-defined]

    return _opens(run, opened)


def _written_stream(run: Run) -> Stream:
    os.environ["XDG_CACHE_HOME"] = str(run.directory / "cache")
    return stream(run.data / READER)


def _opens(run: Run, once: Callable[[], Any]) -> dict[str, Any]:
    once()
    took = []
    began = time.perf_counter()
    while time.perf_counter() - began < run.seconds:
        at = time.process_time()
        once()
        took.append(time.process_time() - at)
    return {"samples_per_s": 1 / float(np.median(took)), "unit": "windows/s"}
