"""A pass over data of five times the memory that all processes of a job may have together, in row groups of 64 MB.

The limit is a control group's, so this needs root. The data are one file many times: what is in them does not matter here.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from umiak.bench.run import Run
from umiak.data.streaming.source import Stream, stream
from umiak.errors import UmiakError
from umiak.messages.events import Event, Pass, Restart
from umiak.nn import SparseEmbedding
from umiak.spec.config import Config, Shard
from umiak.spec.load import Loaded
from umiak.spec.optim import AdaGrad
from umiak.spec.settings import Settings

LIMIT = 2_000_000_000
TIMES = 5
GROUP_BYTES = 64 << 20
WORKERS = 2
MOST_BESIDE_TORCH = 1.5e9
GROUPS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
"""Where control groups are made: of version 1, then of version 2."""
BATCH, IDS = 8192, 100_000


class Small(nn.Module):
    """So small that reading is what takes the time."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.out = SparseEmbedding(1, IDS, bag="sum"), nn.Linear(13, 1)

    def forward(self, batch: dict[str, Any]) -> Any:
        return (self.rows(batch["ids"]) + self.out(batch["dense"])).squeeze(1)


@dataclass
class Watched:
    """A stream whose trainers note how much memory they have: before the first row, and at the most."""

    source: Stream
    directory: Path

    def batches(self, size: int, shard: Shard, seed: int | None, start: int = 0) -> Iterator[dict[str, Any]]:
        before = _status("VmRSS")
        for number, batch in enumerate(self.source.batches(size, shard, seed, start)):
            yield batch
            if number % 16 == 0:
                most = {"before": before, "most": max(_status("VmRSS"), self._most(shard.index))}
                (self.directory / f"memory-{shard.index}.json").write_text(json.dumps(most))

    def _most(self, index: int) -> int:
        with contextlib.suppress(OSError, ValueError):
            return int(json.loads((self.directory / f"memory-{index}.json").read_text())["most"])
        return 0


def run(run: Run) -> dict[str, Any]:
    """Train one pass below the limit; samples/s, and the most that a trainer has beside what torch and the model take."""
    from umiak.launch import local

    os.environ["XDG_CACHE_HOME"] = str(run.directory / "cache")
    rows = write(run.directory / "data")
    source = Watched(stream(run.directory / "data" / "*.parquet", ["ids", "dense", "label"]), run.directory)
    loss = nn.functional.binary_cross_entropy_with_logits
    config = Config(Small, source, lambda output, batch: loss(output, batch["label"].float()), AdaGrad(lr=0.01), BATCH)
    settings = Settings(workers=WORKERS, num_passes=1, save_dir=run.directory / "out", checkpoint_minutes=0)
    seen: list[int] = []

    def look(event: Event) -> None:
        if isinstance(event, Restart):
            raise UmiakError(f"the job restarted, perhaps for want of memory: {event}")
        if isinstance(event, Pass):
            seen.append(event.samples)

    with limited(LIMIT):
        begun = time.monotonic()
        local.train(settings, look, Loaded(config))
        seconds = time.monotonic() - begun
    if seen != [rows]:
        raise UmiakError(f"{seen} samples of {rows} were trained on")
    notes = [json.loads(path.read_text()) for path in sorted(run.directory.glob("memory-*.json"))]
    beside = max(note["most"] - note["before"] for note in notes)
    return {
        "samples_per_s": rows / seconds,
        "unit": f"samples/s, {rows:,} rows below {LIMIT / 1e9:.0f} GB; a trainer has {beside / 1e6:.0f} MB beside torch",
        "beside_torch": beside,
    }


def write(directory: Path) -> int:
    """Files of one row group each, five times the limit together; the number of rows."""
    import pyarrow
    from pyarrow import parquet

    from umiak.data import ctr

    directory.mkdir()
    rows = GROUP_BYTES // (8 * ctr.FEATURES + 4 * ctr.DENSE + 8)
    draw = np.random.default_rng(0)
    ids, dense = draw.integers(0, IDS, (rows, ctr.FEATURES)), draw.random((rows, ctr.DENSE), np.float32)

    def listed(values: np.ndarray) -> Any:
        return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(values.reshape(-1)), values.shape[1])

    table = pyarrow.table({"ids": listed(ids), "dense": listed(dense), "label": draw.integers(0, 2, rows)})
    first = directory / "000.parquet"
    # As it is in memory: what is packed would be less on the disk than the limit asks for.
    parquet.write_table(table, first, row_group_size=rows, compression="none", use_dictionary=False)
    count = -(-TIMES * LIMIT // first.stat().st_size)
    for number in range(1, count):
        shutil.copyfile(first, directory / f"{number:03}.parquet")
    return rows * count


@contextlib.contextmanager
def limited(most: int) -> Iterator[None]:
    """Have this process and all that it starts share so much memory."""
    root = next((path for path in GROUPS if (path / "cgroup.procs").exists()), None)
    if root is None:
        raise UmiakError("no control groups are mounted: data-memory is left out")
    group = root / f"umiak-bench-{os.getpid()}"
    before = _own_group(root)
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if root == GROUPS[0] else "memory.max")).write_text(str(most))
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        raise UmiakError(f"cannot make the control group {group} ({error.strerror}): run as root") from None
    try:
        yield
    finally:
        (before / "cgroup.procs").write_text(str(os.getpid()))
        with contextlib.suppress(OSError):
            group.rmdir()


def _own_group(root: Path) -> Path:
    """The control group of memory that this process is in."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(",") or (root == GROUPS[1] and not controllers):
            return root / path.lstrip("/")
    return root


def _status(name: str) -> int:
    """A line of /proc/self/status, in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024
