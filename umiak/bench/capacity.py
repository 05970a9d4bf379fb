"""How much a table may grow: fills one, trains on while it is checkpointed, and restores it. A job as a user would start it.

Measured are the memory of the servers with their forked writers (pages they share count once), the longest round once the
table is full, and how fast the checkpoint comes back, against the disk's own speed in the same minute.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from umiak.bench.driver import Say
from umiak.bench.noise import Watch
from umiak.errors import RetryError
from umiak.messages.events import Checkpoint, Event, Restart
from umiak.nn.sparse import SparseEmbedding
from umiak.rundir import checkpoint
from umiak.spec.config import Config, Shard
from umiak.spec.load import Loaded
from umiak.spec.optim import AdaGrad
from umiak.spec.settings import Settings

HOME = Path(".cache/bench")
WORKERS, DIM, SAMPLES, FEATURES = 3, 16, 2048, 26
BATCH_IDS = SAMPLES * FEATURES
CHUNK = 8 << 20
SKEW = 1.05
"""The exponent of the law of Zipf by which ids are drawn from a full table, as in the ctr workload."""
LIMIT_SECONDS = 3600.0
SPARE_BYTES = 1 << 30
"""The job is ended before the machine has less than this."""
LOOK_SECONDS = 0.5
ROUNDS_AFTER = 5
"""How many rounds a restored job makes to show that it continues."""


@dataclass(frozen=True)
class Capacity:
    rows: int
    servers_gb: float
    """The most memory all servers and writers had together."""
    servers_gb_alone: float
    """The same while nothing was being written."""
    round_seconds: float
    longest_round_seconds: float
    """Of the rounds with a full table, from its first to the end of a checkpoint of it."""
    checkpoint_gb: float
    checkpoint_seconds: float
    disk_gb_per_s: float
    restore_gb_per_s: float
    others: float

    @property
    def of_disk(self) -> float:
        return self.restore_gb_per_s / self.disk_gb_per_s


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = SparseEmbedding(DIM)
        self.out = nn.Linear(FEATURES * DIM, 1)

    def forward(self, batch: dict[str, Any]) -> Tensor:
        return self.out(self.rows(batch["ids"]).flatten(1)).squeeze(1)


class Filling:
    """Batches of ids that were never seen, until there are `rows`; then batches of those, some far more often than others.

    Every trainer notes when each of its rounds began, in a file of its own.
    """

    def __init__(self, rows: int, directory: Path, full: bool) -> None:
        self.rows, self.directory = rows, directory
        self.filling = 0 if full else -(-rows // (WORKERS * BATCH_IDS))
        """How many rounds it takes."""
        self._times: Any = None

    def batches(self, size: int, shard: Shard, seed: int | None, start: int = 0) -> Iterator[dict[str, Any]]:
        self._times = (self.directory / f"times-{shard.index}").open("a", buffering=1)
        random = np.random.default_rng(shard.index)
        number = start
        while True:
            if number < self.filling:
                numbers = np.arange(BATCH_IDS) + (number * shard.count + shard.index) * BATCH_IDS
                numbers %= self.rows
            else:
                tail = 1 + random.random(BATCH_IDS) * ((self.rows + 1) ** (1 - SKEW) - 1)
                numbers = (tail ** (1 / (1 - SKEW))).astype(np.int64) % self.rows
            label = random.integers(0, 2, SAMPLES)
            # Multiplied by an odd number, numbers become ids from all of the 64 bits, each another one.
            yield {"ids": (numbers * 7046029254386353131).reshape(SAMPLES, FEATURES), "label": label}
            number += 1

    def loss(self, output: Tensor, batch: dict[str, Any]) -> Tensor:
        if output.requires_grad:
            self._times.write(f"{time.monotonic()}\n")
        return nn.functional.binary_cross_entropy_with_logits(output, batch["label"].float())

    def times(self) -> list[float]:
        """When rounds began at trainer 0."""
        path = self.directory / "times-0"
        return [float(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []

    def config(self) -> Config:
        return Config(Model, train=self, loss=self.loss, optimizer=AdaGrad(lr=0.01), batch_size=SAMPLES)


class _Enough(BaseException):
    """Ends the job from inside, past all handlers of errors."""


class Memory:
    """Samples what all servers below this process have; `most` is the highest sum, `alone` while none had a writer."""

    def __init__(self) -> None:
        self.most = self.alone = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            sizes = [size for pid in _servers() if (size := _share(pid)) > 0]
            self.most = max(self.most, sum(sizes))
            if len(sizes) <= WORKERS:
                self.alone = max(self.alone, sum(sizes))


def measure(rows: int, seconds: float, say: Say) -> Capacity:
    """`seconds` lie between two checkpoints."""
    need = 3 * rows * (12 + 8 * DIM)  # two checkpoints are kept while a third is written
    HOME.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(HOME).free < need:
        raise RetryError(
            f"{rows:,} rows need {need / 1e9:.0f} GB of disk below {HOME}: free some, or give fewer --rows"
        )
    watch = Watch()
    with tempfile.TemporaryDirectory(prefix="capacity-", dir=HOME) as scratch:
        directory = Path(scratch)
        out = directory / "out"
        settings = Settings(workers=WORKERS, save_dir=out, checkpoint_minutes=seconds / 60)
        with Memory() as memory:
            source = Filling(rows, directory, full=False)
            wrote = _fill(settings, source, watch, say)
            times = source.times()
        pieces = sorted(max((out / "checkpoints").glob("round-*/manifest.json")).parent.glob("service-*"))
        size = sum(piece.stat().st_size for piece in pieces) / 1e9
        say(f"capacity: {size:.1f} GB in a checkpoint of {rows:,} rows; reading it at the disk's speed")
        disk = size / _read_cold(pieces)
        _forget(pieces)
        restored = _restore(Settings(workers=WORKERS, save_dir=out, checkpoint_minutes=0, resume=True), rows, say)
    full = [late - early for early, late in zip(times[source.filling :], times[source.filling + 1 :], strict=False)]
    return Capacity(
        rows=rows,
        servers_gb=memory.most / 1e9,
        servers_gb_alone=memory.alone / 1e9,
        round_seconds=statistics.median(full),
        longest_round_seconds=max(full),
        checkpoint_gb=size,
        checkpoint_seconds=wrote,
        disk_gb_per_s=disk,
        restore_gb_per_s=size / restored,
        others=watch.stop(),
    )


def _fill(settings: Settings, source: Filling, watch: Watch, say: Say) -> float:
    """Train until a checkpoint of the full table is written and rounds have continued behind it; how long writing took."""
    began = told = time.monotonic()
    asked: list[float] = []
    wrote: list[float] = []
    until = 0

    def look(event: Event) -> None:
        nonlocal told, until
        now = time.monotonic()
        if isinstance(event, Restart):
            raise RetryError(f"the job restarted while its table was filled: {event}")
        if _available() < SPARE_BYTES:
            raise RetryError(f"memory ran out with {len(source.times())} rounds of the table done: give fewer --rows")
        if now - began > LIMIT_SECONDS:
            raise RetryError(f"the table is not full after {LIMIT_SECONDS:.0f} s: give fewer --rows")
        rounds = len(source.times())
        if not asked and any(each.round >= source.filling for each in checkpoint.stored(settings.save_dir)):
            asked.append(now)
        if isinstance(event, Checkpoint) and event.round >= source.filling and asked and not wrote:
            wrote.append(now - asked[0])
            until = rounds + ROUNDS_AFTER
        if wrote and rounds >= until:
            watch.stop()
            raise _Enough
        if now - told > 5:
            told = now
            rows = min(source.rows, rounds * WORKERS * BATCH_IDS)
            say(f"capacity: {rows:,} of {source.rows:,} rows after {now - began:.0f} s, round {rounds}")

    _train(settings, source, look)
    return wrote[0]


def _restore(settings: Settings, rows: int, say: Say) -> float:
    """Go on from the checkpoint; how long its services took to be back."""
    log = settings.save_dir / "node_0" / "train.log"
    earlier = log.stat().st_size
    source = Filling(rows, settings.save_dir.parent, full=True)
    until = len(source.times()) + ROUNDS_AFTER

    def look(event: Event) -> None:
        if len(source.times()) >= until:
            raise _Enough

    say("capacity: restoring")
    _train(settings, source, look)
    with log.open() as file:
        file.seek(earlier)
        return _seconds_between(file.read(), "Initing parameters..", "Init parameters done.")


def _seconds_between(log: str, first: str, second: str) -> float:
    moments = []
    for text in (first, second):
        found = re.search(rf"^.\d{{4}} (\d\d:\d\d:\d\d\.\d+).*{re.escape(text)}", log, re.MULTILINE)
        assert found is not None, text
        moments.append(datetime.strptime(found[1], "%H:%M:%S.%f"))
    return (moments[1] - moments[0]).total_seconds() % 86_400


def _train(settings: Settings, source: Filling, look: Any) -> None:
    from umiak.launch import local

    torch.set_num_threads(1)
    with contextlib.suppress(_Enough):
        local.train(settings, look, Loaded(source.config()))


def _forget(paths: list[Path]) -> None:
    """Have the operating system drop what it keeps of these files, so that the next reader meets the disk."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _read_cold(paths: list[Path]) -> float:
    """Seconds to read these files one after the other, from the disk."""
    _forget(paths)
    room = bytearray(CHUNK)
    began = time.perf_counter()
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.readinto(room):
                pass
    return time.perf_counter() - began


def _available() -> int:
    """What the machine has left, in bytes."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return 1024 * int(found[1]) if found else SPARE_BYTES


def _servers() -> list[int]:
    """Server processes of this one's jobs, and their writers."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = []
    for pid in parents:
        above = pid
        while above in parents and above != os.getpid():
            above = parents[above]
        with contextlib.suppress(OSError):
            if above == os.getpid() and "umiak.worker.server" in Path(f"/proc/{pid}/cmdline").read_text():
                found.append(pid)
    return found


def _share(pid: int) -> float:
    """A process's memory in bytes; pages of several processes are divided among them."""
    try:
        found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return 0.0
    return 1024.0 * int(found[1]) if found else 0.0


def report(outcome: Capacity) -> str:
    return "\n".join(
        [
            f"{outcome.rows:,} rows of {DIM} with AdaGrad over {WORKERS} servers (others: {outcome.others:.0%} of the machine)",
            f"  memory of the servers    {outcome.servers_gb_alone:.1f} GB, {outcome.servers_gb:.1f} GB with their writers",
            f"  a round                  {outcome.round_seconds:.2f} s, the longest {outcome.longest_round_seconds:.2f} s",
            f"  a checkpoint             {outcome.checkpoint_gb:.1f} GB, written in {outcome.checkpoint_seconds:.0f} s",
            f"  restored at              {outcome.restore_gb_per_s:.2f} GB/s, {outcome.of_disk:.2f} of the disk's "
            f"{outcome.disk_gb_per_s:.2f} GB/s",
        ]
    )


def to_json(outcome: Capacity) -> dict[str, Any]:
    return {"workload": "capacity", **asdict(outcome), "of_disk": outcome.of_disk}
