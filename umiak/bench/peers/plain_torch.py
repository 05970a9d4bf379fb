"""The same models in plain torch: one process with all cores, or one process per worker with DistributedDataParallel."""

from __future__ import annotations

import itertools
import os
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from umiak.bench.ours import MODELS
from umiak.bench.run import Run, in_processes
from umiak.errors import UmiakError
from umiak.nn.sparse import SparseEmbedding
from umiak.spec.optim import AdaGrad, Adam, Optimizer
from umiak.trainer.forward import to_tensors


class _RaggedEmbedding(nn.Embedding):
    """torch's table, which also takes a Ragged."""

    def forward(self, ids: Any) -> Tensor:
        return super().forward(ids if isinstance(ids, Tensor) else ids.values)


TABLES = (nn.Embedding, nn.EmbeddingBag)
"""The classes that DistributedDataParallel expects sparse gradients of."""


def whole(table: SparseEmbedding, sparse: bool) -> nn.Module:
    """What torch has in place of a SparseEmbedding: all rows in this process."""
    assert table.num_embeddings is not None
    weight = torch.empty(table.num_embeddings, table.dim).uniform_(-0.01, 0.01)
    if table.bag is None:
        rows = _RaggedEmbedding(table.num_embeddings, table.dim, sparse=sparse, _weight=weight)
        return rows if table.layer is None else nn.Sequential(rows, table.layer)
    return nn.EmbeddingBag(table.num_embeddings, table.dim, mode=table.bag, sparse=sparse, _weight=weight)


def plain(model: nn.Module, sparse: bool) -> nn.Module:
    """The model with torch's own tables in it."""
    for name, child in model.named_children():
        if isinstance(child, SparseEmbedding):
            setattr(model, name, whole(child, sparse))
        else:
            plain(child, sparse)
    return model


def optimizers(model: nn.Module, wanted: Optimizer, sparse: bool) -> list[torch.optim.Optimizer]:
    """torch's own for the same formula; its Adam cannot take sparse gradients, so tables get SparseAdam."""
    tables = [p for m in model.modules() if isinstance(m, TABLES) for p in m.parameters()]
    others = [p for p in model.parameters() if not any(p is table for table in tables)]
    if isinstance(wanted, AdaGrad):
        return [torch.optim.Adagrad([*others, *tables], lr=wanted.lr)]
    if isinstance(wanted, Adam) and sparse:
        return [torch.optim.Adam(others, lr=wanted.lr), torch.optim.SparseAdam(tables, lr=wanted.lr)]
    if isinstance(wanted, Adam):
        return [torch.optim.Adam([*others, *tables], lr=wanted.lr)]
    raise UmiakError(f"the bench knows no torch optimizer for {wanted}")


def single(run: Run) -> None:
    def work(trainer: int) -> None:
        torch.set_num_threads(os.cpu_count() or 1)
        _train(run, trainer, together=False)

    in_processes(run, 1, work)


def ddp(run: Run) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"

    def work(trainer: int) -> None:
        torch.set_num_threads(1)
        rendezvous = f"file://{run.directory.resolve()}/rendezvous"
        dist.init_process_group("gloo", init_method=rendezvous, rank=trainer, world_size=run.workers)
        _train(run, trainer, together=True)

    in_processes(run, run.workers, work)


def _train(run: Run, trainer: int, together: bool) -> None:
    """Train for ever."""
    build, loss_of, wanted = MODELS[run.workload]
    sparse = run.trained.sparse_gradients
    torch.manual_seed(1)
    model = plain(build(), sparse)
    steps = optimizers(model, wanted, sparse)
    called = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True) if together else model
    prepared = [to_tensors(batch) for batch in run.batches(trainer)]
    meter = run.meter(trainer)
    for batch in itertools.cycle(prepared):
        for step in steps:
            step.zero_grad(set_to_none=True)
        loss = loss_of(called(batch), batch)
        loss.backward()
        for step in steps:
            step.step()
        loss.item()
        meter.tick()
