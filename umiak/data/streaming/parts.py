"""Which rows of a chunk are for training and which for testing: the same in every run, whatever other files there are.

Either a row's number in its file is mixed with the file's name, and nothing is read for that. Or the value of a column decides,
so that all rows of a user are on the same side; then that column of all files is read once to count them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from umiak.data.streaming.cache import directory
from umiak.data.streaming.chunks import THREADS, Index
from umiak.errors import InputError, UmiakError
from umiak.files import write_json

_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))

ReadColumn = Callable[[int, str], Any]
"""A column of a chunk, by the chunk's number and its own name."""


@dataclass(frozen=True)
class Part:
    """The rows that are tested on, a share of all, or the others; by the value of column `key`, or by their place."""

    share: float
    tests: bool
    key: str | None = None

    def has(self, hashes: np.ndarray) -> np.ndarray:
        """Which of the rows with these hashes are of the part."""
        tested: np.ndarray = hashes < np.uint64(int(self.share * 2.0**64))
        return tested == self.tests


class Chosen:
    """The rows of an index that belong to a part; all of them without one."""

    def __init__(self, index: Index, part: Part | None, column: ReadColumn | None = None) -> None:
        self._index, self._part, self._column = index, part, column
        starts, before = [], dict.fromkeys(range(len(index.files)), 0)
        for chunk in index.chunks:
            starts.append(before[chunk.file])
            before[chunk.file] += chunk.rows
        self._starts = starts
        """The number of each chunk's first row in its file."""
        self.counts = self._counts()
        """The number of rows of each chunk that belong to the part."""

    def rows(self, number: int) -> np.ndarray:
        """The rows of a chunk that belong to the part, counted from 0."""
        chunk, part = self._index.chunks[number], self._part
        if part is None:
            return np.arange(chunk.rows)
        if part.key is not None:
            assert self._column is not None
            return np.flatnonzero(part.has(_key_hashes(self._column(number, part.key), part.key, self._path(number))))
        name = self._path(number).rpartition("/")[2].encode()
        salt = np.uint64(int.from_bytes(hashlib.sha256(name).digest()[:8], "little"))
        place = np.arange(self._starts[number], self._starts[number] + chunk.rows, dtype=np.uint64)
        return np.flatnonzero(part.has(mixed(place * _ODD + salt)))

    def _path(self, number: int) -> str:
        return self._index.files[self._index.chunks[number].file].path

    def _counts(self) -> np.ndarray:
        part, numbers = self._part, range(len(self._index.chunks))
        if part is None:
            return self._index.rows
        if part.key is None:
            return np.array([self.rows(number).size for number in numbers])
        path = directory() / f"{self._index.digest}-{hashlib.sha256(repr(part).encode()).hexdigest()[:16]}.counts"
        try:
            return np.array(json.loads(path.read_text()), np.int64)
        except (OSError, ValueError):
            with ThreadPoolExecutor(THREADS, "count") as threads:
                counts = [rows.size for rows in threads.map(self.rows, numbers)]
        with contextlib.suppress(OSError, UmiakError):  # they can be counted again
            write_json(path, counts)
        return np.array(counts, np.int64)


def _key_hashes(column: Any, name: str, path: str) -> np.ndarray:
    if column.null_count:
        raise InputError(f"{path}: column {name!r}, which divides training from test rows, has empty cells; fill them")
    encoded = column.combine_chunks().dictionary_encode()
    if hasattr(encoded, "chunks"):
        encoded = encoded.combine_chunks() if encoded.num_chunks != 1 else encoded.chunk(0)
    return mixed(hashes(encoded.dictionary) + _ODD)[encoded.indices.to_numpy()]


def hashes(values: Any) -> np.ndarray:
    """A hash of each value of an array of pyarrow that has no empty cells."""
    from pyarrow import types

    if types.is_integer(values.type) or types.is_floating(values.type) or types.is_boolean(values.type):
        kind = np.float64 if types.is_floating(values.type) else np.int64
        return mixed(values.to_numpy(zero_copy_only=False).astype(kind).view(np.uint64))
    digests = (hashlib.blake2b(str(value).encode(), digest_size=8).digest() for value in values.to_pylist())
    return np.frombuffer(b"".join(digests), np.uint64)


def mixed(values: np.ndarray) -> np.ndarray:
    """splitmix64: neighbouring numbers give unrelated ones."""
    for shift, factor in _MIX:
        values = (values ^ (values >> shift)) * factor
    return values ^ (values >> np.uint64(31))
