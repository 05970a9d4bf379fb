"""How well a stream shuffles files that are sorted, beside a full permutation: python -m umiak.bench.shuffling

Click logs are sorted by their label, which is the worst that can happen to a pass. Shown are the spread of the share of clicks
from batch to batch, where 1 is what chance gives to a full permutation, and the test cost of a logistic regression after a pass.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from umiak.data import ctr
from umiak.data.columns import Columns
from umiak.data.streaming.source import stream
from umiak.spec.config import Shard

ROWS, TESTED, BATCH, BUCKETS = 400_000, 50_000, 512, 1 << 16
CASES = ((20_000, 1 << 17), (2_000, 1 << 17), (2_000, 1 << 14), (200, 1 << 17))
"""Rows of a row group, and of a window."""


class Quality(NamedTuple):
    how: str
    spread: float
    cost: float


def measure(rows: int = ROWS, tested: int = TESTED, cases: Iterable[tuple[int, int]] = CASES) -> list[Quality]:
    table = ctr.synthetic(rows, seed=0)
    order = np.argsort(table["label"], kind="stable")
    table, test = Columns(table.take(order)), ctr.synthetic(tested, seed=1)
    found = [
        _quality("full permutation", table.batches(BATCH, Shard(), 1), table, test),
        _quality("not shuffled", table.batches(BATCH, Shard(), None), table, test),
    ]
    with tempfile.TemporaryDirectory(prefix="umiak-bench-") as scratch:
        os.environ["XDG_CACHE_HOME"] = scratch
        for group, window in cases:
            for name, content in ctr.parquet_files(table, f"{group}", max(rows // 10, 1), group).items():
                Path(scratch, name).write_bytes(content)
            source = stream(Path(scratch, f"{group}-*.parquet"), window=window)
            how = f"stream, row groups of {group:,}, windows of {window:,}"
            found.append(_quality(how, source.batches(BATCH, Shard(), 1), table, test))
    return found


def _quality(how: str, batches: Iterator[dict[str, Any]], table: Columns, test: Columns) -> Quality:
    weights, dense, squares = np.zeros(BUCKETS), np.zeros(ctr.DENSE), np.full(BUCKETS, 1e-8)
    squares_dense = np.full(ctr.DENSE, 1e-8)
    shares = []
    for batch in batches:
        shares.append(batch["label"].mean())
        error = (_odds(weights, dense, batch) - batch["label"]) / len(batch["label"])
        slope, slope_dense = np.zeros(BUCKETS), error @ batch["dense"]
        np.add.at(slope, batch["ids"] % BUCKETS, error[:, None])
        squares += slope**2
        squares_dense += slope_dense**2
        weights -= 0.1 * slope / np.sqrt(squares)
        dense -= 0.1 * slope_dense / np.sqrt(squares_dense)
    share = table["label"].mean()
    by_chance = np.sqrt(share * (1 - share) / BATCH)
    odds = np.clip(_odds(weights, dense, test.take(np.arange(len(test)))), 1e-7, 1 - 1e-7)
    cost = -np.mean(np.where(test["label"] == 1, np.log(odds), np.log(1 - odds)))
    return Quality(how, float(np.std(shares[:-1]) / by_chance), float(cost))


def _odds(weights: np.ndarray, dense: np.ndarray, batch: dict[str, Any]) -> np.ndarray:
    value: np.ndarray = 1 / (1 + np.exp(-(weights[batch["ids"] % BUCKETS].sum(1) + batch["dense"] @ dense)))
    return value


def main() -> None:
    print(f"{'':<55}{'spread':>8}{'test cost':>11}")
    for each in measure():
        print(f"{each.how:<55}{each.spread:>8.2f}{each.cost:>11.4f}")


if __name__ == "__main__":
    main()
