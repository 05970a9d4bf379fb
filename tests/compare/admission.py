"""Open tables that admit an id only when it is seen again, expire rows, keep float16 and bound their size."""

import numpy as np
from torch import nn

import umiak
from umiak.data.columns import Columns


def samples(seed: int, count: int) -> Columns:
    draw = np.random.default_rng(seed)
    item = draw.zipf(1.3, count).astype(np.int64) % 5000
    user = draw.integers(0, 1 << 40, 300)[draw.integers(0, 300, count)]
    target = (np.sin(item) * np.cos(user % 97)).astype(np.float32)
    return Columns({"item": item, "user": user, "target": target})


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.item = umiak.nn.SparseEmbedding(8, std=0.1, min_count=2, expire_after=1)
        self.user = umiak.nn.SparseEmbedding(8, std=0.1, dtype="float16", max_rows=1000)
        self.out = nn.Linear(8, 1)

    def forward(self, batch):
        both = self.item(batch["item"]) * self.user(batch["user"])
        return self.out(both)[:, 0]


config = umiak.Config(
    model=Model,
    train=samples(1, 1500),
    test=samples(2, 200),
    loss=lambda output, batch: nn.functional.mse_loss(output, batch["target"]),
    optimizer=umiak.AdaGrad(lr=0.05),
    batch_size=16,
)
