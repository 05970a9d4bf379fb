"""Is a review sentence positive? Logistic regression on bags of words: two weights per word, summed over the sentence."""

import torch
from torch import nn

import umiak
from umiak.data import text
from umiak.nn.metrics import AUC, ClassificationError

data = text.reviews()


class LogisticRegression(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = umiak.nn.SparseEmbedding(dim=2, num_embeddings=len(data.words) + 1, bag="sum")
        self.bias = nn.Parameter(torch.zeros(2))

    def forward(self, batch):
        return self.words(batch["words"]) + self.bias


config = umiak.Config(
    model=LogisticRegression,
    train=data.train,
    test=data.test,
    loss=lambda output, batch: nn.functional.cross_entropy(output, batch["label"]),
    optimizer=umiak.Adam(lr=5e-3),
    batch_size=32,
    metrics={"error": ClassificationError(), "auc": AUC()},
)
