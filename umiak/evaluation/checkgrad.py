"""`paddle train --job=checkgrad`: the gradients of one batch against differences of its cost.

Each parameter is moved a little along its gradient, with some noise, and back again; the change of the cost should be what the
gradient says. All of it is computed in double precision: the original, in single, saw differences of a percent in good ones.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from umiak import logs
from umiak.data.columns import Ragged, count
from umiak.errors import InputError
from umiak.nn.sparse import sparse_tables
from umiak.rundir import snapshot
from umiak.spec.config import Config, Shard
from umiak.spec.load import Loaded
from umiak.spec.settings import Settings
from umiak.trainer import forward
from umiak.trainer.initial import load_dense
from umiak.trainer.run import log_config

CPU = torch.device("cpu")
ALARMING = 0.01
TINY = 1e-20
log = logging.getLogger("umiak.trainer")


def run(loaded: Loaded, settings: Settings) -> float:
    """Log a line for each parameter; the largest difference, as a share."""
    torch.set_num_threads(settings.trainer_count)
    torch.manual_seed(settings.seed)
    log_config(loaded)
    config = loaded.config
    model = forward.build(config, CPU)
    if sparse_tables(model):
        raise InputError("--job=checkgrad is for models without sparse tables")
    if source := snapshot.to_load(settings):
        load_dense(source, dict(model.named_parameters()), model, settings.load_missing_parameter_strategy)
    model.double().train()
    batch, samples = _batch(config)

    def cost() -> torch.Tensor:
        torch.manual_seed(settings.seed)  # the same mask of every dropout
        return forward.run(model, config, batch)[1] * samples

    undisturbed = cost()
    undisturbed.backward()
    original = float(undisturbed.detach())
    log.info("original cost=%s", logs.number(original))
    draw = torch.Generator().manual_seed(settings.seed)
    worst = 0.0
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            worst = max(worst, _check(name, parameter, original, settings.checkgrad_eps, cost, draw))
    log.info("the largest difference is %s", logs.number(worst))
    return worst


def _check(name: str, parameter: nn.Parameter, original: float, eps: float, cost: Any, draw: torch.Generator) -> float:
    grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    way = torch.empty_like(parameter).uniform_(-1, 1, generator=draw)
    if (norm := float(grad.square().sum())) > 0:
        way = 0.5 * math.sqrt(norm / float(way.square().sum())) * way + grad
    slope = float((grad * way).sum())
    # As far as changes the cost by the share `eps` of it.
    step = original / slope * eps if slope else eps
    before = parameter.detach().clone()
    costs = []
    with torch.no_grad():
        for sign in (1, -1):
            parameter.copy_(before + sign * step * way)
            costs.append(float(cost()))
        parameter.copy_(before)
    true, analytic = 0.5 * (costs[0] - costs[1]), slope * step
    difference = (TINY + true) / (TINY + analytic) - 1
    figures = {"step": (step, 15), "cost1": (costs[0], 10), "cost2": (costs[1], 10)}
    figures |= {"true_delta": (true, 15), "analytic_delta": (analytic, 15)}
    columns = "".join(f"{key}={logs.number(value):<{width}}" for key, (value, width) in figures.items())
    alarm = " ***" if abs(difference) > ALARMING else ""
    log.info("%s%sdiff=%s%s", f"{name:<20}", columns, logs.number(difference), alarm)
    return abs(difference)


def _batch(config: Config) -> tuple[Mapping[str, Any], int]:
    batch = next(config.train.batches(config.batch_size, Shard(), None, 0), None)
    if batch is None:
        raise InputError("the training data are empty: there is nothing to check with")
    tensors = {name: _double(value) for name, value in forward.to_tensors(batch).items()}
    return tensors, count(next(iter(batch.values())))


def _double(value: Any) -> Any:
    if isinstance(value, Ragged):
        return Ragged(_double(value.values), value.offsets)
    return value.double() if value.is_floating_point() else value
