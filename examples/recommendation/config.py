"""How many stars will a user give a movie? A tower for each, and five times the cosine between them as the answer.

The network of the 2016 MovieLens tutorial, on ml-100k. For ml-1m give load() its directory or zip, and --config_args batch=1600.
"""

import torch
from torch import nn

import umiak
from umiak.data import movielens
from umiak.nn.metrics import RMSE

DIM = 256
data = movielens.load()


def table(field):
    return umiak.nn.SparseEmbedding(DIM, num_embeddings=data.sizes[field], std=0.05)


def layer(inputs=DIM):
    return nn.Sequential(nn.Linear(inputs, DIM), nn.Tanh())


class Title(nn.Module):
    """Every word with two neighbours on either side through one layer; of each output, the maximum over the title."""

    def __init__(self):
        super().__init__()
        self.words = table("title")
        self.layer = layer(5 * DIM)

    def forward(self, title):
        windows = umiak.nn.context(self.words(title), title.offsets, start=-2, length=5)
        return umiak.nn.largest(self.layer(windows), title.offsets)


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.ids = nn.ModuleDict({field: table(field) for field in ("user", "gender", "age", "occupation", "movie")})
        self.layers = nn.ModuleDict({field: layer() for field in self.ids})
        self.genres = nn.Sequential(layer(data.sizes["genres"]), layer())
        self.title = Title()
        self.user_tower = layer(4 * DIM)
        self.movie_tower = layer(3 * DIM)

    def forward(self, batch):
        seen = {field: self.layers[field](self.ids[field](batch[field])) for field in self.ids}
        user = self.user_tower(torch.cat([seen["user"], seen["gender"], seen["age"], seen["occupation"]], 1))
        movie = self.movie_tower(
            torch.cat([seen["movie"], self.genres(batch["genres"]), self.title(batch["title"])], 1)
        )
        return 5 * nn.functional.cosine_similarity(user, movie)


config = umiak.Config(
    model=Recommender,
    train=data.train,
    test=data.test,
    loss=lambda output, batch: nn.functional.mse_loss(output, batch["target"]),
    optimizer=umiak.RMSProp(lr=1e-3),
    batch_size=umiak.config_arg("batch", 200),
    metrics={"rmse": RMSE("target", scale=0.5)},  # in stars
    baseline=umiak.Baseline("user+item mean", "rmse", lambda: movielens.mean_baseline(data.train, data.test)),
)
