"""What a native config file defines: `config = Config(...)`. Models and losses are called, never inspected: no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from umiak.errors import InputError
from umiak.spec.average import Average
from umiak.spec.optim import Optimizer, ParamOptions


@dataclass(frozen=True)
class Shard:
    """The part of a data set that one trainer reads: sample i belongs to shard i % count."""

    index: int = 0
    count: int = 1


class Source(Protocol):
    """Where batches come from. The same arguments must give the same batches: recovery replays them."""

    def batches(self, size: int, shard: Shard, seed: int | None, start: int = 0) -> Iterator[dict[str, Any]]:
        """Batches of at most `size` samples from number `start` on; shuffled by `seed`, or as the data stand when it is None.

        All trainers of a job get the same seed for a pass.
        """


class Metric(Protocol):
    """A number over many samples, computed from a total that adds up over batches and trainers.

    Smaller is better, unless it has `higher_is_better = True`.
    """

    size: int

    def add(self, total: np.ndarray, output: Any, batch: Mapping[str, Any]) -> None:
        """Add this batch to `total`, a float64 vector of `size` elements."""

    def value(self, total: np.ndarray) -> float:
        """The metric, from the total over all samples."""


class Baseline(NamedTuple):
    """A number to beat: what a simple method reaches in one of the metrics. `value` is that number, or computes it."""

    name: str
    metric: str
    value: float | Callable[[], float]


@dataclass(frozen=True)
class Config:
    """What to train: `model()` builds an nn.Module that maps a batch to an output, `loss(output, batch)` is a mean over samples.

    `train` and `test` are sources of batches (see `umiak.data`), and `batch_size` is per trainer. `metrics` are measured
    beside the cost, by name. `parameters` changes the optimizer for parameters whose name matches a key, such as `*.bias`.
    `predict` turns an output into what `umiak predict` writes. `best` names the metric, or "cost", by whose test passes are
    compared: OUT/best links to the best snapshot, and --patience stops training when there is no better one.
    """

    model: Callable[[], Any]
    train: Source
    loss: Callable[[Any, Any], Any]
    optimizer: Optimizer
    batch_size: int = 128
    test: Source | None = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    parameters: Mapping[str, ParamOptions] = field(default_factory=dict)
    predict: Callable[[Any], Any] | None = None
    baseline: Baseline | None = None
    best: str | None = None
    tests_whole: bool = False
    """Every trainer tests on all test data, instead of a share each."""
    shapes: Mapping[str, tuple[int, ...]] | None = None
    """The shapes of all parameters, where they are known before the model is built."""
    average: Average | None = None
    """Tests and snapshots have the mean of the values over the last updates. Of PaddlePaddle v1; not for tables."""

    def __post_init__(self) -> None:
        for name in ("model", "loss"):
            if not callable(getattr(self, name)):
                raise InputError(f"Config.{name} must be callable, not {type(getattr(self, name)).__name__}")
        for name in ("train", "test"):
            source = getattr(self, name)
            if not hasattr(source, "batches") and not (name == "test" and source is None):
                raise InputError(
                    f"Config.{name} must be a data source (see umiak.data), not {type(source).__name__}; "
                    "wrap a generator function with umiak.data.provider"
                )
        if self.best is not None and self.test is None:
            raise InputError("Config.best compares the tests of passes, but there is no test data: add Config(test=…)")
        if self.best is not None and self.best not in ("cost", *self.metrics):
            raise InputError(f"Config.best is {self.best!r}, but there is only {', '.join(['cost', *self.metrics])}")
        if not isinstance(self.optimizer, Optimizer):
            raise InputError(f"Config.optimizer must be one of umiak's optimizers, not {type(self.optimizer).__name__}")
        if not isinstance(self.batch_size, int) or self.batch_size < 1:
            raise InputError(f"Config.batch_size must be a whole number of at least 1, not {self.batch_size!r}")
