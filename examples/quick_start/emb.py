"""Is a review sentence positive? The average of its words' embeddings, and one linear layer on top."""

from torch import nn

import umiak
from umiak.data import text
from umiak.nn.metrics import AUC, ClassificationError

data = text.reviews()


class AverageOfWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = umiak.nn.SparseEmbedding(dim=128, num_embeddings=len(data.words) + 1, bag="mean")
        self.classes = nn.Linear(128, 2)

    def forward(self, batch):
        return self.classes(self.words(batch["words"]))


config = umiak.Config(
    model=AverageOfWords,
    train=data.train,
    test=data.test,
    loss=lambda output, batch: nn.functional.cross_entropy(output, batch["label"]),
    optimizer=umiak.Adam(lr=1e-3),
    batch_size=32,
    metrics={"error": ClassificationError(), "auc": AUC()},
)
