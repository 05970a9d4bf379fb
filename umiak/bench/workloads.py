"""What is trained: the workloads, each with its data, which are written once and read by every system alike.

A workload's batches are prepared beforehand and go round: the bench measures training, not reading. Imports no torch, so
that peers in another Python can read the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from umiak.data.columns import Columns, Ragged

DATA = "data.npz"


@dataclass(frozen=True)
class Workload:
    """`distinct` batches per trainer go round; one time round is the warm-up, after which every row of a table exists."""

    name: str
    batch_size: int
    distinct: int
    samples: Callable[[int], Columns]
    sparse_gradients: bool
    """Whether plain torch does better with sparse gradients of its embeddings."""


def movielens(samples: int) -> Columns:
    from umiak.data import synthetic

    # A tenth of the ratings is for testing, and every user's share is rounded.
    return synthetic.movielens(seed=0, ratings=samples * 6 // 5).train


def clicks(samples: int) -> Columns:
    from umiak.data import ctr

    return ctr.synthetic(samples, seed=0)


def bags_of_words(samples: int) -> Columns:
    """80 of 30,000 words by Zipf's law; the label tells whether many of them are divisible by seven."""
    words = 30_000
    share = np.cumsum(1.0 / np.arange(1, words + 1))
    draw = np.random.default_rng(0).random((samples, 80))
    ids = np.searchsorted(share, draw * share[-1], side="right") * 7919 % words
    return Columns({"words": ids, "label": ((ids % 7 == 0).sum(1) > 11).astype(np.int64)})


def lists_of_words(samples: int) -> Columns:
    """The same as one list per sample."""
    table = bags_of_words(samples)
    words = table["words"]
    return Columns({"words": _listed(words, np.full(samples, words.shape[1])), "label": table["label"]})


def sentences(samples: int) -> Columns:
    """20 to 140 words by Zipf's law, labelled like bags of words."""
    table = bags_of_words(2 * samples)
    words = table["words"].reshape(samples, -1)
    lengths = np.random.default_rng(1).integers(20, 141, samples)
    return Columns({"words": _listed(words, lengths), "label": table["label"][::2]})


def _listed(lines: np.ndarray, lengths: np.ndarray) -> Ragged:
    kept = np.arange(lines.shape[1]) < lengths[:, None]
    return Ragged(lines[kept], np.concatenate([[0], np.cumsum(lengths)]))


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("recommendation", 1600, 6, movielens, sparse_gradients=False),
        Workload("ctr", 2048, 16, clicks, sparse_gradients=True),
        Workload("data-ctr", 2048, 16, clicks, sparse_gradients=True),
        Workload("quick_start", 128, 100, bags_of_words, sparse_gradients=True),
        Workload("v1-lr", 128, 100, lists_of_words, sparse_gradients=False),
        Workload("v1-cnn", 128, 10, sentences, sparse_gradients=False),
        Workload("v1-recommendation", 1600, 6, movielens, sparse_gradients=False),
    )
}


def write(workload: Workload, workers: int, directory: Path) -> None:
    """The batches of all trainers in one file."""
    samples = workload.batch_size * workload.distinct * workers
    columns = workload.samples(samples)
    arrays: dict[str, np.ndarray] = {}
    for name, value in columns.take(np.arange(samples)).items():
        if isinstance(value, Ragged):
            arrays |= {f"{name}.values": value.values, f"{name}.offsets": value.offsets}
        else:
            arrays[name] = value
    np.savez(directory / DATA, allow_pickle=False, **arrays)


def batches(workload: Workload, workers: int, directory: Path, trainer: int) -> list[dict[str, Any]]:
    """One trainer's batches."""
    with np.load(directory / DATA) as file:
        arrays = dict(file)
    columns = Columns(
        {
            name: Ragged(arrays[f"{name}.values"], arrays[f"{name}.offsets"])
            if f"{name}.values" in arrays
            else arrays[name]
            for name in dict.fromkeys(key.partition(".")[0] for key in arrays)
        }
    )
    size = workload.batch_size
    starts = [(number * workers + trainer) * size for number in range(workload.distinct)]
    return [columns.take(np.arange(start, start + size)) for start in starts]
