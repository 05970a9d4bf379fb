"""Predictions on their way to one Parquet file: parts beside it, each whole or not there, joined when all of them are.

A run that was killed leaves its parts and what they belong to; the same command continues with those that are missing.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umiak.errors import InputError, RetryError
from umiak.files import atomic, make_directory, write_json

PLAN = "plan.json"
LOCK = "lock"
LOCK_SECONDS = 10.0
"""Workers of a run that was killed end by themselves; so long the next one waits for them."""


@dataclass(frozen=True)
class Parts:
    """The directory of the parts of one output file."""

    output: Path

    @property
    def directory(self) -> Path:
        return self.output.with_name(f"{self.output.name}.parts")

    def path(self, number: int) -> Path:
        return self.directory / f"{number:06}.parquet"

    def is_done(self, number: int) -> bool:
        return self.path(number).exists()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other commands out. Forked workers hold the lock too, until the last of them has ended."""
        make_directory(self.directory)
        with (self.directory / LOCK).open("w") as file:
            deadline = time.monotonic() + LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise RetryError(
                            f"another umiak predict is writing {self.output}: wait for it, or choose another --output"
                        ) from None
                time.sleep(0.05)
            yield

    def begin(self, identity: dict[str, Any], overwrite: bool) -> None:
        """Continue what is there if it is of the same prediction. Of another, it is refused or replaced."""
        plan = self.directory / PLAN
        with contextlib.suppress(FileNotFoundError, ValueError):
            if json.loads(plan.read_text()) == identity:
                return
            if not overwrite:
                raise InputError(
                    f"{self.directory} holds parts of a different prediction: delete it, choose another --output, or replace it "
                    "with --overwrite"
                )
        for path in [plan, *self.directory.glob("*.parquet")]:
            path.unlink(missing_ok=True)
        write_json(plan, identity)

    def write(self, number: int, table: Any) -> None:
        """Publish a part: a table of pyarrow, or None where no row is left."""
        with atomic(self.path(number)) as file:
            if table is not None:
                _write(table, file)

    def join(self, count: int) -> int:
        """Write the output from all parts, in their order, and remove them; the number of rows."""
        from pyarrow import parquet

        rows = 0
        paths = [path for number in range(count) if (path := self.path(number)).stat().st_size]
        if not paths:
            raise InputError("the parse function left out all rows: there is nothing to predict")
        with atomic(self.output) as file, parquet.ParquetWriter(_sink(file), _schema(paths)) as writer:
            for path in paths:
                with parquet.ParquetFile(path) as part:
                    for group in range(part.num_row_groups):
                        table = part.read_row_group(group)
                        writer.write_table(table)
                        rows += table.num_rows
        self.remove()
        return rows

    def remove(self) -> None:
        shutil.rmtree(self.directory)


def _schema(paths: Sequence[Path]) -> Any:
    from pyarrow import parquet

    first = parquet.read_schema(paths[0])
    for path in paths[1:]:
        if not parquet.read_schema(path).equals(first):
            raise InputError(
                "Config(predict=…) gives values of different kinds for different batches: give the same kind for all"
            )
    return first


def _write(table: Any, file: Any) -> None:
    from pyarrow import parquet

    with parquet.ParquetWriter(_sink(file), table.schema) as writer:
        writer.write_table(table)


class _Sink:
    """An atomic file as pyarrow wants it: something to write to, in order."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        count: int = self._file.write(data)
        return count

    def tell(self) -> int:
        place: int = self._file.tell()
        return place

    def flush(self) -> None:
        pass

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        pass


def _sink(file: Any) -> Any:
    import pyarrow

    return pyarrow.PythonFile(_Sink(file), mode="w")
