"""Click logs: 13 numbers and 26 categories per impression. A reader of the Criteo layout, and a generator of its shape.

A sample has `ids` (26 ids, each feature in a range of its own), `dense` (13 floats) and `label` (1 for a click).
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from umiak.data.columns import Columns
from umiak.data.fetch import fetch
from umiak.data.location import path, root
from umiak.data.streaming.source import WINDOW, Stream, stream
from umiak.extras import needed

FEATURES, DENSE = 26, 13
IDS = 10_000_000
"""How many ids there are over all features."""
DIGITS = 8
FILE_ROWS = 100_000
_COUNTS = [f"f{number}" for number in range(1, 1 + DENSE)]
_CATEGORIES = [f"f{number}" for number in range(1 + DENSE, 1 + DENSE + FEATURES)]
_HEX = np.full(256, 255, np.uint8)
_HEX[np.frombuffer(b"0123456789abcdefABCDEF", np.uint8)] = [*range(16), *range(10, 16)]


def criteo(paths: str | Path | Sequence[str | Path], ids: int = IDS, window: int = WINDOW) -> Stream:
    """A source of files in the layout of the Criteo challenges: label, 13 counts, 26 hexadecimal categories, by tabs.

    Any cell but the label may be empty. Counts become log(1 + count), negative and empty ones 0. Categories are folded
    into `ids` / 26 ids per feature, where 0 stands for an empty cell. Files are streamed: see `umiak.data.stream`.
    """
    types = dict.fromkeys(_COUNTS, int) | dict.fromkeys(_CATEGORIES, str)
    parse = partial(_impressions, ids // FEATURES)
    return stream(paths, {"f0": int, **types}, parse, by="batch", header=False, format="tsv", window=window)


class Clicks(NamedTuple):
    train: Stream
    test: Stream


def load() -> Clicks:
    """Made-up impressions as Parquet, streamed: 500,000 to train on and 50,000 to test on, over ten million ids.

    `umiak data fetch ctr` makes the files, once, or the first call does. With UMIAK_DATA=s3://… they are read from there.
    """
    if "://" not in root():
        fetch("ctr")
    return Clicks(stream(path("ctr/train-*.parquet")), stream(path("ctr/test-*.parquet")))


def files(train: int = 500_000, test: int = 50_000, ids: int = IDS) -> dict[str, bytes]:
    """The same as Parquet files, by their names."""
    parts = {"train": synthetic(train, 0, ids), "test": synthetic(test, 1, ids)}
    return {
        name: content
        for part, table in parts.items()
        for name, content in parquet_files(table, part, FILE_ROWS, FILE_ROWS // 5).items()
    }


def parquet_files(table: Columns, part: str, rows: int, group: int) -> dict[str, bytes]:
    """Impressions as Parquet files of so many rows, in row groups of `group`; their names begin with `part`."""
    found = {}
    for number, begin in enumerate(range(0, len(table), rows)):
        piece = Columns(table.take(np.arange(begin, min(begin + rows, len(table)))))
        found[f"{part}-{number:03}.parquet"] = _parquet(piece, group)
    return found


def _parquet(table: Columns, group: int) -> bytes:
    with needed("parquet", "click logs as Parquet need"):
        import pyarrow
        from pyarrow import parquet

    def listed(values: np.ndarray) -> Any:
        return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(values.reshape(-1)), values.shape[1])

    columns = {"ids": listed(table["ids"]), "dense": listed(table["dense"]), "label": pyarrow.array(table["label"])}
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file, row_group_size=group, write_page_checksum=True)
    return file.getvalue()


def synthetic(samples: int, seed: int = 0, ids: int = IDS) -> Columns:
    """Impressions whose categories follow Zipf's law with exponent 1.05 in each feature's range of `ids` / 26 ids.

    Each id pushes the odds of a click up or down by the same amount for every seed, so one seed can train and another
    test.
    """
    random = np.random.default_rng(seed)
    each = ids // FEATURES
    share = np.cumsum(np.arange(1, each + 1) ** -1.05)
    dense = random.standard_normal((samples, DENSE), np.float32)
    odds = dense[:, 0] - dense[:, 1] - 1.0
    columns = np.empty((samples, FEATURES), np.int64)
    for feature in range(FEATURES):
        rank = np.searchsorted(share, random.random(samples) * share[-1], side="right")
        # Frequent ids lie far apart, as hashed ids do.
        columns[:, feature] = (rank * 7919 + feature * 1237) % each + feature * each
        odds += ((columns[:, feature] * 2654435761 >> 7) % 1000 - 499.5) / 1000
    label = random.random(samples) < 1 / (1 + np.exp(-odds))
    return Columns({"ids": columns, "dense": dense, "label": label.astype(np.int64)})


def _impressions(each: int, table: Any) -> Mapping[str, Any]:
    """Many at once: a function of single cells would take as long as the training."""
    import pyarrow.compute as pc

    counts = np.stack([pc.fill_null(table[name], 0).to_numpy() for name in _COUNTS], 1)
    ids = np.stack([_folded(table[name], each) for name in _CATEGORIES], 1)
    return {
        "ids": ids + np.arange(FEATURES) * each,
        "dense": np.log1p(np.maximum(counts, 0)).astype(np.float32),
        "label": table["f0"].to_numpy(),
    }


def _folded(column: Any, each: int) -> np.ndarray:
    """Hexadecimal cells as ids below `each`: 0 for an empty one."""
    import pyarrow.compute as pc

    column = column.combine_chunks()
    filled = pc.utf8_lpad(column, DIGITS, "0")
    digits = np.frombuffer(filled.buffers()[2], np.uint8, len(column) * DIGITS, filled.offset * DIGITS)
    values = _HEX[digits.reshape(-1, DIGITS)]
    if values.max(initial=0) > 15:
        wrong = column[int(np.flatnonzero((values > 15).any(1))[0])].as_py()
        raise ValueError(f"{wrong!r} is not a category of up to {DIGITS} hexadecimal digits")
    numbers = values.astype(np.int64) @ (16 ** np.arange(DIGITS - 1, -1, -1, dtype=np.int64))
    return np.where(pc.utf8_length(column).to_numpy() > 0, 1 + numbers % (each - 1), 0)
