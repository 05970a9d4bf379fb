"""Will this impression be clicked? Wide & deep: one weight per category, and a network on their embeddings.

Runs on made-up impressions over 10 million ids, streamed from Parquet files that `umiak data fetch ctr` makes, or the first run.
With Criteo's files: train=ctr.criteo("train.txt").
`--config_args rows=float16` keeps the embeddings in half precision.
"""

import torch
from torch import nn

import umiak
from umiak.data import ctr
from umiak.nn.metrics import AUC

DIM = 16


class WideAndDeep(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide = umiak.nn.SparseEmbedding(1, ctr.IDS, bag="sum")
        self.embedding = umiak.nn.SparseEmbedding(DIM, ctr.IDS, dtype=umiak.config_arg("rows", "float32"))
        self.deep = nn.Sequential(
            *(umiak.nn.Linear(ctr.FEATURES * DIM + ctr.DENSE, 400), nn.ReLU(inplace=True)),
            *(nn.Linear(400, 400), nn.ReLU(inplace=True)),
            nn.Linear(400, 1),
        )

    def forward(self, batch):
        rows = self.embedding(batch["ids"]).flatten(1)
        return (self.wide(batch["ids"]) + self.deep(torch.cat([rows, batch["dense"]], 1))).squeeze(1)


data = ctr.load()
config = umiak.Config(
    model=WideAndDeep,
    train=data.train,
    test=data.test,
    loss=lambda output, batch: nn.functional.binary_cross_entropy_with_logits(output, batch["label"].float()),
    optimizer=umiak.AdaGrad(lr=1e-2),
    batch_size=2048,
    metrics={"auc": AUC()},
)
