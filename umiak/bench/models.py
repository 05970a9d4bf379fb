"""The models of the bench, as a user would write them. Small on purpose: `examples/` is where to learn from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from umiak.data import ctr
from umiak.nn import Linear, SparseEmbedding, context, largest

WORDS = 30_000
TOWER = 256
MOVIELENS_SIZES = {"user": 6041, "movie": 3953, "gender": 2, "age": 7, "occupation": 21, "title": 5601, "genres": 18}
"""Above every id of the fields of umiak.data.synthetic.movielens, whatever its seed."""

Batch = Mapping[str, Any]


class Recommendation(nn.Module):
    """The MovieLens network of 2016: a tower for the user, one for the movie, five times the cosine between them."""

    def __init__(self) -> None:
        super().__init__()
        fields = ("user", "gender", "age", "occupation", "movie")
        self.ids = nn.ModuleDict({field: _rows(field, _layer()) for field in fields})
        self.genres = nn.Sequential(_layer(MOVIELENS_SIZES["genres"]), _layer())
        self.words = _rows("title")
        self.title = nn.Linear(5 * TOWER, TOWER)
        self.user_tower, self.movie_tower = _layer(4 * TOWER), _layer(3 * TOWER)

    def forward(self, batch: Batch) -> Tensor:
        seen = {field: rows(batch[field]) for field, rows in self.ids.items()}
        user = self.user_tower(torch.cat([seen["user"], seen["gender"], seen["age"], seen["occupation"]], 1))
        movie = self.movie_tower(
            torch.cat([seen["movie"], self.genres(batch["genres"]), self._title(batch["title"])], 1)
        )
        return 5 * nn.functional.cosine_similarity(user, movie)

    def _title(self, title: Any) -> Tensor:
        """Every word with two neighbours on either side through one layer; the maximum over the title.

        tanh keeps the order of numbers, so there is one per title instead of one per word if the maximum comes first.
        """
        near = context(self.words(title), title.offsets, start=-2, length=5)
        return torch.tanh(largest(self.title(near), title.offsets))


class Clicks(nn.Module):
    """Embeddings of 26 categories beside 13 numbers, and three layers of 400."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = SparseEmbedding(16, ctr.IDS)
        sizes = (ctr.FEATURES * 16 + ctr.DENSE, 400, 400, 400)
        hidden = [part for i in range(3) for part in (Linear(sizes[i], sizes[i + 1]), nn.ReLU(inplace=True))]
        self.layers = nn.Sequential(*hidden, nn.Linear(400, 1))

    def forward(self, batch: Batch) -> Tensor:
        return self.layers(torch.cat([self.rows(batch["ids"]).flatten(1), batch["dense"]], 1)).squeeze(1)


class BagOfWords(nn.Module):
    """Logistic regression: two weights per word, summed over the sample."""

    def __init__(self) -> None:
        super().__init__()
        self.words = SparseEmbedding(2, WORDS, bag="sum")
        self.bias = nn.Parameter(torch.zeros(2))

    def forward(self, batch: Batch) -> Tensor:
        return self.words(batch["words"]) + self.bias


def squared_error(output: Tensor, batch: Batch) -> Tensor:
    return nn.functional.mse_loss(output, batch["target"])


def click_loss(output: Tensor, batch: Batch) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(output, batch["label"].float())


def class_loss(output: Tensor, batch: Batch) -> Tensor:
    return nn.functional.cross_entropy(output, batch["label"])


def _rows(field: str, layer: nn.Module | None = None) -> SparseEmbedding:
    return SparseEmbedding(TOWER, MOVIELENS_SIZES[field], std=0.05, layer=layer)


def _layer(inputs: int = TOWER) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, TOWER), nn.Tanh())
