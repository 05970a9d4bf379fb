"""Parquet as chunks: its row groups, found in the footer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from umiak.data.streaming.cache import Cache
from umiak.data.streaming.places import File, opened, unreadable
from umiak.data.streaming.ranges import Seen
from umiak.errors import InputError

FOOTERS = 256


def look(file: File) -> Seen:
    """The row groups of a file and its columns; only the footer is read."""
    with opened(file) as source:
        parquet = _parquet(file, source)
        metadata = parquet.metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        found = [(group.num_rows, number, group.total_byte_size) for number, group in enumerate(groups)]
        return Seen(found, parquet.schema_arrow.remove_metadata(), "")


class Groups:
    """Reads row groups. The footers of the files it has read last stay in memory: in S3 each costs a request."""

    def __init__(self, cache: Cache | None = None) -> None:
        self._cache = cache
        self._footers: dict[str, Any] = {}

    def read(self, file: File, group: int, columns: Sequence[str] | None) -> Any:
        """The table of a row group."""
        with opened(file, self._cache) as source:
            parquet = _parquet(file, source, self._footers.get(file.path))
            if len(self._footers) >= FOOTERS:
                self._footers.clear()
            self._footers[file.path] = parquet.metadata
            return _table(file, parquet, group, columns)


def _table(file: File, parquet: Any, group: int, columns: Sequence[str] | None) -> Any:
    import pyarrow

    try:
        return parquet.read_row_group(group, columns=columns, use_threads=False)
    except (pyarrow.ArrowException, OSError) as error:
        if getattr(error, "errno", None):
            raise unreadable(file.path, error) from None
        # pyarrow raises a plain OSError for pages that it cannot unpack.
        raise InputError(f"{file.path}: row group {group} is damaged: {_first(error)}; write the file again") from None


def _parquet(file: File, source: Any, metadata: Any = None) -> Any:
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        return ParquetFile(source, metadata=metadata, pre_buffer=True, page_checksum_verification=True)
    except pyarrow.ArrowException as error:
        raise InputError(f"cannot read {file.path} as Parquet: {_first(error)}; write or fetch it again") from None
    except OSError as error:
        raise unreadable(file.path, error) from None


def _first(error: Exception) -> str:
    return str(error).splitlines()[0]
