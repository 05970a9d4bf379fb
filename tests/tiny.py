"""A small config that touches everything a checkpoint must hold: both kinds of tables, dropout, buffers, uneven batches.

UMIAK_TEST_PAUSE makes every batch take that many seconds, so that a test can interfere in the middle.
"""

import os
import time

import numpy as np
import torch
from torch import nn

import umiak
from umiak.data.columns import Columns, Ragged

PAUSE = float(os.environ.get("UMIAK_TEST_PAUSE", "0"))
SAMPLES = 1000


def table(seed: int, samples: int) -> Columns:
    draw = np.random.default_rng(seed)
    user, item = draw.integers(0, 50, samples), draw.integers(0, 1 << 40, 40)[draw.integers(0, 40, samples)]
    dense = draw.standard_normal((samples, 4)).astype(np.float32)
    lengths = draw.integers(0, 6, samples)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    target = (np.sin(user) * np.cos(item % 97) + 0.3 * dense[:, 0]).astype(np.float32)
    words = Ragged(draw.integers(0, 500, offsets[-1]), offsets)
    return Columns({"user": user, "item": item, "dense": dense, "words": words, "target": target})


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.user = umiak.nn.SparseEmbedding(8, 50, std=0.1)
        self.item = umiak.nn.SparseEmbedding(8, std=0.1)
        self.words = umiak.nn.SparseEmbedding(4, bag="mean")
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(12, 1)

    def forward(self, batch):
        if self.training and PAUSE:
            time.sleep(PAUSE)
        both = self.user(batch["user"]) * self.item(batch["item"])
        rest = self.norm(batch["dense"]) + self.words(batch["words"])
        return self.out(torch.cat([self.drop(both), rest], 1))[:, 0] + both.sum(1)


config = umiak.Config(
    model=Model,
    train=table(1, SAMPLES),
    test=table(2, 200),
    loss=lambda output, batch: nn.functional.mse_loss(output, batch["target"]),
    optimizer=umiak.Adam(lr=0.02),
    batch_size=16,
)
