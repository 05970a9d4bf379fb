"""The network of trainer_config.py in plain torch, trained in one process: what the v1 config is compared with.

Nothing of umiak but its MovieLens tables. First values and update rule are those of 2016: N(0, 1/√inputs), zero biases, and
RMSProp about the mean gradient, on the sum of the costs of a batch.
"""

import numpy as np
import torch
from torch import nn

SIZE, BATCH, RATE, KEEP, LEAST = 256, 200, 1e-3, 0.95, 1e-6


def layer(inputs):
    made = nn.Linear(inputs, SIZE)
    nn.init.normal_(made.weight, std=inputs**-0.5)
    nn.init.zeros_(made.bias)
    return nn.Sequential(made, nn.Tanh())


def table(rows):
    made = nn.Embedding(rows, SIZE)
    nn.init.normal_(made.weight, std=rows**-0.5)
    return made


def fusion(parts):
    """One layer over several inputs; in 2016 each had a matrix of its own, which began by its own inputs alone."""
    made = layer(SIZE * parts)
    nn.init.normal_(made[0].weight, std=SIZE**-0.5)
    return made


class Network(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        fields = ("user", "gender", "age", "occupation", "movie")
        self.ids = nn.ModuleDict({field: nn.Sequential(table(sizes[field]), layer(SIZE)) for field in fields})
        self.genres = nn.Sequential(layer(sizes["genres"]), layer(SIZE))
        self.words = nn.Embedding(sizes["title"] + 1, SIZE, padding_idx=sizes["title"])
        nn.init.normal_(self.words.weight, std=sizes["title"] ** -0.5)
        self.words.weight.data[-1] = 0
        self.title = layer(5 * SIZE)
        self.user, self.movie = fusion(4), fusion(3)

    def forward(self, fields, title):
        seen = {name: part(fields[name]) for name, part in self.ids.items()}
        # Two more places of padding at each end are the neighbours of the first and the last word.
        words = self.words(nn.functional.pad(title, (2, 2), value=self.words.padding_idx))
        windows = words.unfold(1, 5, 1).transpose(2, 3).flatten(2)
        outside = (title == self.words.padding_idx).unsqueeze(2)
        title_part = self.title(windows).masked_fill(outside, -2).amax(1)
        movie = self.movie(torch.cat([seen["movie"], title_part, self.genres(fields["genres"])], 1))
        user = self.user(torch.cat([seen[name] for name in ("user", "gender", "age", "occupation")], 1))
        return 5 * nn.functional.cosine_similarity(movie, user)


def padded(title, padding):
    """One row per list, filled up to the longest."""
    lengths = np.diff(title.offsets)
    out = np.full((len(lengths), lengths.max()), padding)
    out[np.arange(out.shape[1]) < lengths[:, None]] = title.values
    return torch.from_numpy(out)


def batches(table, sizes, order):
    for begin in range(0, len(order), BATCH):
        batch = table.take(order[begin : begin + BATCH])
        title = padded(batch.pop("title"), sizes["title"])
        yield {name: torch.from_numpy(value) for name, value in batch.items()}, title


def train(data, passes, seed=1):
    """The test RMSE in stars after so many passes, in one thread as a trainer has it."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    network = Network(data.sizes)
    parameters = list(network.parameters())
    squares, means = None, [torch.zeros_like(p) for p in parameters]
    for _ in range(passes):
        for fields, title in batches(data.train, data.sizes, random.permutation(len(data.train))):
            cost = (network(fields, title) - fields["target"]).square().sum()
            grads = torch.autograd.grad(cost, parameters)
            with torch.no_grad():
                if squares is None:
                    squares = [g * g for g in grads]
                for p, g, square, mean in zip(parameters, grads, squares, means, strict=True):
                    square.mul_(KEEP).addcmul_(g, g, value=1 - KEEP)
                    mean.mul_(KEEP).add_(g, alpha=1 - KEEP)
                    p.sub_(RATE * g / (square - mean * mean + LEAST).sqrt())
    with torch.no_grad():
        total = 0.0
        for fields, title in batches(data.test, data.sizes, np.arange(len(data.test))):
            total += float((network(fields, title) - fields["target"]).square().sum())
    return (total / len(data.test)) ** 0.5 / 2
