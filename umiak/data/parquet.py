"""Parquet files, row by row or column by column. Imports pyarrow only when a file is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from umiak.data.columns import Columns, Ragged
from umiak.errors import InputError
from umiak.extras import needed


def rows(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Row numbers, counted from 1, and rows."""
    number = 0
    with opened(path) as file:
        for batch in file.iter_batches():
            for row in batch.to_pylist():
                number += 1
                yield number, row


def tables(path: str) -> Iterator[Columns]:
    """The file in pieces: numbers as columns, lists as Ragged."""
    with opened(path) as file:
        for batch in file.iter_batches():
            yield Columns({name: column_of(path, name, batch.column(name)) for name in batch.schema.names})


@contextmanager
def opened(path: str) -> Iterator[Any]:
    """The file; what pyarrow cannot read is an InputError."""
    with needed("parquet", "Parquet files need"):
        import pyarrow
        from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            yield file
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(
            f"cannot read {path} as Parquet: {str(error).splitlines()[0]}; fetch or write it again"
        ) from None


def column_of(path: str, name: str, column: Any) -> np.ndarray | Ragged:
    """An array of pyarrow as a column: numbers, or lists of numbers."""
    from pyarrow import types

    if column.null_count:
        raise InputError(f"{path}: column {name!r} has empty cells; give a parse function that fills them")
    if types.is_list(column.type) or types.is_large_list(column.type):
        offsets = column.offsets.to_numpy().astype(np.int64)
        return Ragged(_numbers(path, name, column.flatten()), offsets - offsets[0])
    if types.is_fixed_size_list(column.type):
        return _numbers(path, name, column.flatten()).reshape(len(column), -1)
    return _numbers(path, name, column)


def _numbers(path: str, name: str, column: Any) -> np.ndarray:
    from pyarrow import types

    real = types.is_floating(column.type)
    if not (real or types.is_integer(column.type) or types.is_boolean(column.type)) or column.null_count:
        raise InputError(
            f"{path}: column {name!r} holds {column.type}, not plain numbers; give a parse function that makes them"
        )
    wanted = np.float32 if real else np.int64
    values: np.ndarray = column.to_numpy(zero_copy_only=False).astype(wanted, copy=False)
    return values
