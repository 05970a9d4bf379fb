"""`umiak.data.stream`: a source that reads its files while the model trains, a window ahead, and never holds all of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from umiak.data.columns import check_size
from umiak.data.formats import kind
from umiak.data.streaming.cache import Cache, directory, size_of
from umiak.data.streaming.chunks import Index, indexed
from umiak.data.streaming.dealing import Deal
from umiak.data.streaming.parts import Part
from umiak.data.streaming.places import File, found
from umiak.data.streaming.reading import By, How, Parse, Reader, Rows, Types
from umiak.errors import InputError
from umiak.spec.config import Shard

WINDOW = 1 << 17


def stream(
    paths: str | Path | Sequence[str | Path],
    columns: Sequence[str] | Types | None = None,
    parse: Parse | None = None,
    *,
    by: By = "record",
    header: bool = True,
    format: str | None = None,
    window: int = WINDOW,
    cache: str | None = None,
) -> Stream:
    """A source of the rows of Parquet, CSV, TSV or JSON lines files, here or in S3, however large they are.

    `paths` is a file or a pattern, like `"s3://bucket/day=*/**/*.parquet"`, or a list of them; directories such as day=7 become
    a column. `columns` chooses some, and may say what they hold: `{"user": int, "price": float}`. Without `parse` they must be
    numbers or lists of numbers. `parse(record)` turns a dict (a line of .txt: a str) into a sample, or None to leave it out;
    with by="batch", `parse(table)` turns a pyarrow.Table into a dict of arrays, one entry a row. `format` is "parquet", "csv",
    "tsv", "jsonl" or "txt" where the names of files do not say so. `cache`, such as "50GB", keeps that much of what is
    read from S3 on this machine's disk, for the passes that follow.

    Every shard reads its own part, in windows of `window` rows, each shuffled as a whole.
    """
    listed = _listed(paths)
    kinds = {kind(f"data.{format}" if format else path.removesuffix(".zst")) for path in listed}
    if len(kinds) > 1:
        raise InputError(
            f"stream() was given files of several kinds ({', '.join(sorted(kinds))}): write one stream for each"
        )
    ending = kinds.pop()
    if ending == ".txt" and (parse is None or by != "record" or columns):
        raise InputError('stream() of .txt needs parse=…, a function of one line, with by="record" and no columns')
    if by not in ("record", "batch"):
        raise InputError(f'stream(by=…) must be "record" or "batch", not {by!r}')
    if window < 1:
        raise InputError(f"stream(window=…) must be at least 1 row, not {window}")
    limit = None if cache is None else size_of(cache)
    return Stream(listed, ending, header, How(columns, parse, by), window, cache=limit)


class Split(NamedTuple):
    train: Stream
    test: Stream


def train_test_split(
    paths: str | Path | Sequence[str | Path],
    columns: Sequence[str] | Types | None = None,
    parse: Parse | None = None,
    *,
    test: float | str | Path | Sequence[str | Path] = 0.1,
    key: str | None = None,
    **options: Any,
) -> Split:
    """Two streams: one to test on, and one to train on with all other rows of the same files. Takes what `stream` takes.

    `test` is a share of the rows, or the files to test on, by name or pattern. With a share, a row's place in its file decides
    which of the two has it, or the value of the column `key`: then all rows of a user, say, are on the same side. It is the
    same one in every run, also when files are added.
    """
    whole = stream(paths, columns, parse, **options)
    if not isinstance(test, float | int):
        if key is not None:
            raise InputError("train_test_split(key=…) goes with a share of the rows, like test=0.1, not with files")
        return Split(replace(whole, without=_listed(test)), replace(whole, paths=_listed(test)))
    if not 0 < test < 1:
        raise InputError(f"train_test_split(test=…) must be a share between 0 and 1, like 0.1, not {test}")
    return Split(*(replace(whole, part=Part(test, tests, key)) for tests in (False, True)))


def _listed(paths: str | Path | Sequence[str | Path]) -> list[str]:
    listed = [str(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    if not listed:
        raise InputError("stream() was given an empty list of files")
    return listed


@dataclass
class Stream:
    """What `stream` returns. Nothing is opened before the first batch: the config may be read where there are no data."""

    paths: Sequence[str]
    kind: str
    header: bool
    how: How
    window: int
    part: Part | None = None
    without: Sequence[str] = ()
    """Files of `paths` that are left to another stream."""
    cache: int | None = None
    _index: Index | None = field(default=None, init=False, repr=False)
    _reader: Reader | None = field(default=None, init=False, repr=False)

    def files(self) -> list[File]:
        """The files there are now."""
        others = {file.path for file in found(self.without)} if self.without else set()
        files = [file for file in found(self.paths) if file.path not in others]
        if not files:
            raise InputError(f"all files of {', '.join(self.paths)} are for testing: none is left to train on")
        return files

    @property
    def index(self) -> Index:
        if self._index is None:
            self._index = indexed(self.kind, self.header, self.files())
        return self._index

    def begin_with(self, index: Index) -> None:
        """Read what a run has begun with, and no file that was added since."""
        self._index, self._reader = index, None

    @property
    def reader(self) -> Reader:
        if self._reader is None:
            cache = None if self.cache is None else Cache(directory() / "objects", self.cache)
            self._reader = Reader(self.index, self.how, self.part, cache)
        return self._reader

    def rows(self, shard: Shard) -> int:
        """How many rows a shard has in a pass, with those that the parse function leaves out."""
        return len(Deal(self.reader.chosen.counts, 1, shard, None, self.window))

    def batches(self, size: int, shard: Shard, seed: int | None, start: int = 0) -> Iterator[dict[str, Any]]:
        check_size(size)
        deal = Deal(self.reader.chosen.counts, size, shard, seed, self.window)
        first = deal.first_window(start)
        skipped = start - deal.batches_before(first)
        with contextlib.closing(_ahead(partial(self.read_window, deal), first, deal.windows)) as windows:
            for rows in windows:
                for begin in range(skipped * size, len(rows), size):
                    yield rows.batch(begin, begin + size)
                skipped = 0

    def read_window(self, deal: Deal, number: int) -> Rows:
        """The rows of a window, in the order in which they are trained on."""
        pieces = list(deal.pieces(number))
        rows = sum(piece.end - piece.begin for piece in pieces)
        return Rows.gathered(self.reader.read(pieces), deal.permutation(number, rows))


def _ahead(make: Callable[[int], Any], first: int, count: int) -> Generator[Any, None, None]:
    """make(first), make(first + 1), …: each made in the background while the one before it is used."""
    thread = ThreadPoolExecutor(1, "stream", initializer=_all_cores, initargs=(_cores(),))
    try:
        coming = thread.submit(make, first) if first < count else None
        for number in range(first, count):
            assert coming is not None
            made = coming.result()
            coming = thread.submit(make, number + 1) if number + 1 < count else None
            yield made
    finally:
        thread.shutdown(wait=True, cancel_futures=True)


def _cores() -> set[int] | None:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None


def _all_cores(cores: set[int] | None) -> None:
    """A trainer may be pinned to a core (umiak.pserver.affinity); its thread must not inherit that."""
    if cores:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, cores)
