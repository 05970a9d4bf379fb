"""Cut a file or a directory into shards, one per trainer, so that every sample is in exactly one of them.

Samples are dealt out in turn, as a native source deals them to trainers, so shards differ by one sample at most. A file
that is not data (a dictionary, a list of files, a test set) is whole in every shard. An interrupted split continues: an
interrupted run leaves a state file beside the shards, and the manifest is written last.
"""

from __future__ import annotations

import contextlib
import fnmatch
import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from umiak.data import formats
from umiak.data.shardfile import Output
from umiak.data.shardroot import STATE, delete_shards, in_the_way, locked, replace_shards
from umiak.data.shards import (
    LAYOUTS,
    Entry,
    Manifest,
    Piece,
    batches,
    directory,
    entry_of,
    read,
    row_bytes,
)
from umiak.data.split_rows import PARQUET, check_names, opened, target_name
from umiak.errors import InputError
from umiak.extras import needed
from umiak.files import CHUNK, disk_error, patiently, write_json
from umiak.paths import is_relative

TRAIN_LIST = "train.list"
SAVE_BYTES = 256 << 20

OnProgress = Callable[[int, int], None]
"""Called with the bytes of the source that are done, and all of them."""


@dataclass(frozen=True)
class Plan:
    """What will be done with each file, in the order of their names."""

    source: Path
    split: tuple[str, ...]
    whole: tuple[str, ...]
    shards: int
    layout: str
    header: bool
    address: dict[str, Any] | None = None
    """Where the source was brought from, which tells more of it than the time of its files here."""
    parquet: bool = False
    """Whether what is cut becomes Parquet, whatever it was."""

    def identity(self) -> dict[str, Any]:
        """Changes with the source and with how it is to be cut; a run continues only with the same."""
        return {**self._identity(), **({"parquet": True} if self.parquet else {})}

    def _identity(self) -> dict[str, Any]:
        if self.address is not None:
            return {"address": self.address, "split": sorted(self.split), "header": self.header}
        names = sorted((*self.split, *self.whole))
        stats = {name: self._file(name).stat() for name in names}
        files = {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}
        return {"files": files, "split": sorted(self.split), "header": self.header}

    def _file(self, name: str) -> Path:
        return self.source / name if self.source.is_dir() else self.source

    def files(self) -> Iterator[tuple[str, Path, bool]]:
        """Name, path, and whether it is cut."""
        for name in sorted((*self.split, *self.whole)):
            yield name, self._file(name), name in self.split


def plan(
    source: Path,
    shards: int,
    layout: str = "2017",
    whole: Sequence[str] = (),
    header: bool = False,
    address: dict[str, Any] | None = None,
    parquet: bool = False,
) -> Plan:
    """Decide what is cut. In a directory with a train.list that is what the list names; else all files of samples.

    `whole` are patterns of files that every shard gets as they are. With `parquet`, what is cut becomes Parquet.
    """
    made = _plan(source, shards, layout, whole, header, address, parquet)
    if parquet:
        check_names(made.split)
        if TRAIN_LIST in made.whole:
            raise InputError(
                f"--parquet would rename the files that {source / TRAIN_LIST} names; leave one of them out"
            )
    return made


def _plan(
    source: Path,
    shards: int,
    layout: str,
    whole: Sequence[str],
    header: bool,
    address: dict[str, Any] | None,
    parquet: bool,
) -> Plan:
    if shards < 1:
        raise InputError(f"--shards {shards}: write at least 1")
    if layout not in LAYOUTS:
        raise InputError(f"--layout {layout} is unknown; write one of {', '.join(LAYOUTS)}")
    if source.is_file():
        formats.kind(source.name)
        return Plan(source, (source.name,), (), shards, layout, header, address, parquet)
    if not source.is_dir():
        raise InputError(f"there is no file or directory {source}")
    names = [str(path.relative_to(source)) for path in sorted(source.rglob("*")) if path.is_file()]
    if odd := [name for name in names if not is_relative(name)]:
        raise InputError(f"{source / odd[0]}: a backslash cannot be in the name of a file of a shard set; rename it")
    for pattern in whole:
        if not fnmatch.filter(names, pattern):
            raise InputError(f"--whole {pattern} matches no file in {source}")
    cut = _listed(source, names) if TRAIN_LIST in names else [name for name in names if formats.known(name)]
    cut = [name for name in cut if not any(fnmatch.fnmatch(name, pattern) for pattern in whole)]
    if not cut:
        raise InputError(
            f"{source} holds no file to split: known are .txt .csv .tsv .jsonl, all also .gz, and .parquet"
        )
    others = tuple(name for name in names if name not in cut)
    return Plan(source, tuple(cut), others, shards, layout, header, address, parquet)


def _listed(source: Path, names: list[str]) -> list[str]:
    """The files a train.list names. Its paths are relative to where training runs: the last parts must match."""
    found = []
    for line in (source / TRAIN_LIST).read_text().splitlines():
        name = line.strip().removeprefix("./").removeprefix("data/")
        if not name:
            continue
        if name not in names:
            raise InputError(f"{source / TRAIN_LIST} names {line.strip()!r}, but there is no {source / name}")
        found.append(name)
    return found


def split(
    plan: Plan, root: Path, overwrite: bool = False, on_progress: OnProgress = lambda done, total: None
) -> Manifest:
    """Do it, or continue it. A shard set that is already whole and of the same source is left as it is."""
    if root.resolve().is_relative_to(plan.source.resolve()):
        raise InputError(f"{root} is inside {plan.source}: the shards would become part of what is split")
    try:
        root.mkdir(parents=True, exist_ok=True)
        with locked(root):
            # What was done is written down, so each try continues where the volume failed.
            return patiently(lambda: _split(plan, root, overwrite, on_progress), root, "write to")
    except OSError as error:
        raise disk_error(error, root) from error


def _split(plan: Plan, root: Path, overwrite: bool, on_progress: OnProgress) -> Manifest:
    identity = plan.identity()
    there = read(root)
    if there is not None and (there.shards, there.layout, there.source) == (plan.shards, plan.layout, identity):
        return there
    state = _State.load(root / STATE, {**identity, "shards": plan.shards, "layout": plan.layout})
    if not state.begun:
        replace_shards(root, in_the_way(root, overwrite))
        state.save()
    total = sum(path.stat().st_size for _, path, _ in plan.files()) or 1
    before = 0
    for name, path, cut in plan.files():
        if name not in state.done:
            called = target_name(name) if cut and plan.parquet else name
            targets = [directory(root, plan.layout, index) / called for index in range(plan.shards)]
            for target in targets:
                target.parent.mkdir(parents=True, exist_ok=True)
            if cut:
                first = sum(entry.samples for entry in state.done.values())
                work = _Cut(called, path, targets, first, plan.header, state)
                entry = work.run(partial(_report, on_progress, before, total))
            else:
                entry = _whole(name, path, targets)
            state.done[name], state.current = entry, {}
            state.save()
        before += path.stat().st_size
        on_progress(before, total)
    manifest = Manifest(plan.shards, plan.layout, identity, tuple(state.done[name] for name, _, _ in plan.files()))
    if manifest.samples < plan.shards:
        delete_shards(in_the_way(root, overwrite=True))  # our own
        raise InputError(f"{plan.source} has {manifest.samples} samples, too few for {plan.shards} shards")
    manifest.write(root)
    (root / STATE).unlink()
    return manifest


def _report(on_progress: OnProgress, before: int, total: int, at: int) -> None:
    on_progress(before + at, total)


@dataclass
class _State:
    """How far an interrupted run came: files that are done, and a place inside the one that is not."""

    path: Path
    identity: dict[str, Any]
    begun: bool
    done: dict[str, Entry]
    current: dict[str, Any]

    @classmethod
    def load(cls, path: Path, identity: dict[str, Any]) -> _State:
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError):
            value = json.loads(path.read_text())
            if value["identity"] == identity:
                done = {name: entry_of(entry, path) for name, entry in value["done"].items()}
                return cls(path, identity, True, done, value["current"])
        return cls(path, identity, False, {}, {})

    def save(self) -> None:
        done = {name: asdict(entry) for name, entry in self.done.items()}
        write_json(self.path, {"identity": self.identity, "done": done, "current": self.current})


class _Cut:
    """Cutting one file."""

    def __init__(self, name: str, path: Path, targets: list[Path], first: int, header: bool, state: _State) -> None:
        self.name, self.path, self.targets, self.first, self.state = name, path, targets, first, state
        self.titled = header and formats.kind_or_text(path.name) in (".csv", ".tsv")
        self.rows = name.endswith(PARQUET)
        self.samples, self.content = 0, hashlib.sha256()

    def run(self, progress: Callable[[int], None]) -> Entry:
        try:
            pieces = self._rows(progress) if self.rows else self._lines(progress)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError(f"{self.path} is damaged: {error}; fetch it again") from None
        titled = self.titled and not self.rows
        return Entry(self.name, True, tuple(pieces), self.samples, self.first, self.content.hexdigest(), titled)

    def _mine(self, shard: int) -> slice:
        """Which of the next samples belong to a shard."""
        count = len(self.targets)
        return slice((shard - self.first - self.samples) % count, None, count)

    def _lines(self, progress: Callable[[int], None]) -> list[Piece]:
        packed = self.path.suffix == ".gz"
        with self.path.open("rb") as raw:
            source: IO[bytes] = gzip.GzipFile(fileobj=raw) if packed else raw  # type: ignore[assignment]
            outputs, titled = (
                self._resume(raw) if self.state.current.get("path") == self.name else (self._begin(packed), 0)
            )
            saved = raw.tell()
            for lines in batches(source, formats.kind_or_text(self.name) == ".csv"):
                if self.titled and not titled:
                    titled = len(lines[0])
                    for output in outputs:
                        output.put(lines[:1])
                    lines = lines[1:]
                for shard, output in enumerate(outputs):
                    part = lines[self._mine(shard)]
                    output.put(part)
                    output.samples += len(part)
                self.content.update(b"".join(lines))
                self.samples += len(lines)
                progress(raw.tell())
                if not packed and raw.tell() - saved >= SAVE_BYTES:
                    saved = raw.tell()
                    self._save(outputs, saved, titled)
            return [output.publish() for output in outputs]

    def _begin(self, packed: bool) -> list[Output]:
        return [Output(target, packed=packed) for target in self.targets]

    def _save(self, outputs: list[Output], at: int, titled: int) -> None:
        for output in outputs:
            output.sync()
        sizes, counts = [output.bytes for output in outputs], [output.samples for output in outputs]
        self.state.current = {"path": self.name, "at": at, "titled": titled, "bytes": sizes, "samples": counts}
        self.state.save()

    def _resume(self, raw: IO[bytes]) -> tuple[list[Output], int]:
        """Take up the parts of an interrupted run where its state says they were whole."""
        current = self.state.current
        outputs = [Output(target, at) for target, at in zip(self.targets, current["bytes"], strict=True)]
        for output, count in zip(outputs, current["samples"], strict=True):
            output.samples = count
            self.samples += count
        raw.seek(current["titled"])
        while raw.tell() < current["at"]:
            self.content.update(raw.read(min(CHUNK, current["at"] - raw.tell())))
        return outputs, current["titled"]

    def _rows(self, progress: Callable[[int], None]) -> list[Piece]:
        import numpy as np

        with needed("parquet", "Parquet files need"):
            from pyarrow.parquet import ParquetWriter

        counts = [0] * len(self.targets)
        temporary = [target.with_name(f".{target.name}.part") for target in self.targets]
        with opened(self.path, self.titled) as (schema, batches), contextlib.ExitStack() as stack:
            writers = [stack.enter_context(ParquetWriter(path, schema)) for path in temporary]
            for batch, share in batches:
                for shard, writer in enumerate(writers):
                    mine = np.arange(len(batch))[self._mine(shard)]
                    writer.write_batch(batch.take(mine))
                    counts[shard] += len(mine)
                self.content.update(b"".join(row_bytes(row) for row in batch.to_pylist()))
                self.samples += len(batch)
                progress(int(self.path.stat().st_size * share))
        pieces = []
        for path, target, count in zip(temporary, self.targets, counts, strict=True):
            output = Output(target, path.stat().st_size)
            output.samples = count
            pieces.append(output.publish())
        return pieces


def _whole(name: str, path: Path, targets: list[Path]) -> Entry:
    pieces = []
    for target in targets:
        output = Output(target)
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                output.write(chunk)
        pieces.append(output.publish())
    return Entry(name, False, (pieces[0],))
