"""v1 configs against the same models written directly in PyTorch, both as jobs of the same engine with dense parameters.

What differs is the network and the update rule; data, batches and engine are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from umiak.bench.models import MOVIELENS_SIZES, TOWER, WORDS
from umiak.bench.ours import Make, job
from umiak.bench.run import Run
from umiak.nn.metrics import ClassificationError
from umiak.spec.config import Config, Source
from umiak.spec.optim import Adam
from umiak.spec.settings import Settings

_HEAD = """
from paddle.trainer_config_helpers import *
settings(batch_size=%d, learning_rate=1e-3, learning_method=AdamOptimizer())
"""
_LR = f"""
bag = data_layer(name='words', size={WORDS})
output = fc_layer(input=bag, size=2, act=SoftmaxActivation())
outputs(classification_cost(input=output, label=data_layer(name='label', size=2)))
"""
_CNN = f"""
vectors = embedding_layer(input=data_layer(name='words', size={WORDS}), size=128)
largest = sequence_conv_pool(input=vectors, context_len=3, hidden_size=512)
output = fc_layer(input=largest, size=2, act=SoftmaxActivation())
outputs(classification_cost(input=output, label=data_layer(name='label', size=2)))
"""
_RECOMMENDATION = f"""
sizes = {MOVIELENS_SIZES}

def seen(field):
    return embedding_layer(input=data_layer(name=field, size=sizes[field]), size={TOWER})

def part(field):
    return fc_layer(input=seen(field), size={TOWER})

genres = fc_layer(input=fc_layer(input=data_layer(name='genres', size=sizes['genres']), size={TOWER}), size={TOWER})
title = text_conv_pool(input=seen('title'), context_len=5, hidden_size={TOWER})
movie = fc_layer(input=[part('movie'), genres, title], size={TOWER})
user = fc_layer(input=[part(field) for field in ('user', 'gender', 'age', 'occupation')], size={TOWER})
outputs(mse_cost(input=cos_sim(a=movie, b=user, scale=5), label=data_layer(name='target', size=1)))
"""
CONFIGS = {"v1-lr": _LR, "v1-cnn": _CNN, "v1-recommendation": _RECOMMENDATION}


def v1(run: Run) -> None:
    job(run, _settings(run), of_v1(run))


def native(run: Run) -> None:
    job(run, _settings(run), of_native(run))


def of_v1(run: Run) -> Make:
    from umiak.paddle_v1 import config
    from umiak.paddle_v1.language import reading
    from umiak.paddle_v1.language.modules import Modules

    path = run.directory / "trainer_config.py"
    path.write_text(_HEAD % run.trained.batch_size + CONFIGS[run.workload])
    built = config.build(reading.load(path, {}, check_data=False), Modules((run.directory,)), Settings())
    return lambda source: replace(built, train=source)


def of_native(run: Run) -> Make:
    model, loss, metrics = _NATIVE[run.workload]

    def make(source: Source) -> Config:
        size = run.trained.batch_size
        return Config(model, source, loss, Adam(lr=1e-3), batch_size=size, metrics=metrics)

    return make


def _settings(run: Run) -> Settings:
    return Settings(workers=run.workers, save_dir=run.directory / "out")


class BagOfWords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(WORDS, 2, mode="sum")
        self.bias = nn.Parameter(torch.zeros(2))

    def forward(self, batch: Mapping[str, Any]) -> Tensor:
        values, offsets = batch["words"]
        return self.words(values, offsets[:-1]) + self.bias


class Windows(nn.Module):
    """Every line with its neighbours through one layer; of each output, the maximum over the sequence."""

    def __init__(self, inputs: int, outputs: int, start: int, length: int) -> None:
        super().__init__()
        self.start, self.length = start, length
        self.layer = nn.Linear(inputs * length, outputs)

    def forward(self, rows: Tensor, offsets: Tensor) -> Tensor:
        owner = torch.repeat_interleave(offsets[1:] - offsets[:-1])
        place = torch.arange(len(rows))[:, None] + torch.arange(self.start, self.start + self.length)
        near = place.clamp(0, len(rows) - 1)
        inside = (place == near) & (owner[near] == owner[:, None])
        windows = (rows[near] * inside[:, :, None]).flatten(1)
        return torch.segment_reduce(torch.tanh(self.layer(windows)), "max", offsets=offsets)


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 128)
        self.windows = Windows(128, 512, -1, 3)
        self.classes = nn.Linear(512, 2)

    def forward(self, batch: Mapping[str, Any]) -> Tensor:
        values, offsets = batch["words"]
        return self.classes(self.windows(self.words(values), offsets))


class Recommendation(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        fields = ("user", "gender", "age", "occupation", "movie")
        self.ids = nn.ModuleDict({field: nn.Embedding(MOVIELENS_SIZES[field], TOWER) for field in fields})
        self.layers = nn.ModuleDict({field: nn.Linear(TOWER, TOWER) for field in fields})
        self.genres, self.more_genres = nn.Linear(MOVIELENS_SIZES["genres"], TOWER), nn.Linear(TOWER, TOWER)
        self.words = nn.Embedding(MOVIELENS_SIZES["title"], TOWER)
        self.title = Windows(TOWER, TOWER, -2, 5)
        self.user_tower, self.movie_tower = nn.Linear(4 * TOWER, TOWER), nn.Linear(3 * TOWER, TOWER)

    def forward(self, batch: Mapping[str, Any]) -> Tensor:
        seen = {field: torch.tanh(self.layers[field](self.ids[field](batch[field]))) for field in self.ids}
        genres = torch.tanh(self.more_genres(torch.tanh(self.genres(batch["genres"]))))
        values, offsets = batch["title"]
        movie = torch.cat([seen["movie"], genres, self.title(self.words(values), offsets)], 1)
        user = torch.cat([seen["user"], seen["gender"], seen["age"], seen["occupation"]], 1)
        towers = torch.tanh(self.user_tower(user)), torch.tanh(self.movie_tower(movie))
        return 5 * functional.cosine_similarity(*towers)


def _class_loss(output: Tensor, batch: Mapping[str, Any]) -> Tensor:
    return functional.cross_entropy(output, batch["label"])


def _square_loss(output: Tensor, batch: Mapping[str, Any]) -> Tensor:
    return functional.mse_loss(output, batch["target"])


_NATIVE: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "v1-lr": (BagOfWords, _class_loss, {"error": ClassificationError()}),
    "v1-cnn": (Convolution, _class_loss, {"error": ClassificationError()}),
    "v1-recommendation": (Recommendation, _square_loss, {}),
}
