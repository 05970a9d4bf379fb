"""Click logs: 13 numbers and 26 categories per impression. A reader of the Criteo layout, and a generator of its shape.

A sample has `ids` (26 ids, each feature in a range of its own), `dense` (13 floats) and `label` (1 for a click).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import log1p
from pathlib import Path
from typing import Any

import numpy as np

from umiak.data.columns import Columns
from umiak.data.readers import read
from umiak.data.sources import Kept, Pooled

FEATURES, DENSE = 26, 13
IDS = 10_000_000
"""How many ids there are over all features."""


def criteo(paths: str | Path | Sequence[str | Path], ids: int = IDS, pool: int | None = None) -> Kept | Pooled:
    """A source of files in the layout of the Criteo challenges: label, 13 counts, 26 hexadecimal categories, by tabs.

    Any cell but the label may be empty. Counts become log(1 + count), negative and empty ones 0. Categories are folded
    into `ids` / 26 ids per feature, where 0 stands for an empty cell.
    """
    return read(paths, partial(_impression, ids // FEATURES), header=False, pool=pool)


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


def _impression(each: int, cells: list[str] | str) -> Mapping[str, Any]:
    cells = cells.split("\t") if isinstance(cells, str) else cells
    if len(cells) != 1 + DENSE + FEATURES:
        raise ValueError(f"{len(cells)} cells where the Criteo layout has {1 + DENSE + FEATURES}")
    dense = [log1p(max(0, int(cell))) if cell else 0.0 for cell in cells[1 : 1 + DENSE]]
    folded = [1 + int(cell, 16) % (each - 1) if cell else 0 for cell in cells[1 + DENSE :]]
    return {
        "ids": np.array(folded, np.int64) + np.arange(FEATURES) * each,
        "dense": np.array(dense, np.float32),
        "label": int(cells[0]),
    }
