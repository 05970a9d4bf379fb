"""The numbers of whole trainings: one trainer, many trainers and plain torch agree; what a config says reaches the servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import umiak
from tests.processes import TINY
from tests.processes import umiak as umiak_command
from tests.trainers import BOTH, Server, server, train
from umiak.data import Columns, Shard, batch_provider
from umiak.messages.events import Pass
from umiak.pserver.rowinit import RowInit
from umiak.rundir.parameterfile import read_parameter
from umiak.spec.load import load as load_config
from umiak.spec.optim import Optimizer, ParamOptions, PassManual, Poly, Schedule
from umiak.trainer.trainer import mix

SEED, VOCAB, DIM, BATCH, TRAINERS, PASSES = 1, 12, 4, 10, 3, 2
SAMPLES = 4 * TRAINERS * BATCH + 7  # the last round of a pass is a short one


def samples(seed: int = 0) -> Columns:
    draw = np.random.default_rng(seed)
    ids = np.stack([draw.permutation(VOCAB) for _ in range(SAMPLES)])
    few = draw.integers(0, VOCAB, (SAMPLES, 2))
    x = draw.standard_normal((SAMPLES, DIM)).astype(np.float32)
    return Columns({"ids": ids, "few": few, "x": x, "target": (x @ [1, -1, 2, 0.5]).astype(np.float32)})


class Net(nn.Module):
    """Uses every row of its table for every sample (`ids`), or two of them (`few`)."""

    def __init__(self, table: nn.Module, field: str) -> None:
        super().__init__()
        self.table, self.field = table, field
        self.first, self.last = nn.Linear(DIM, 6), nn.Linear(6, 1)
        draw = torch.Generator().manual_seed(7)
        for parameter in (*self.first.parameters(), *self.last.parameters()):
            nn.init.normal_(parameter, std=0.3, generator=draw)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        weights = torch.linspace(-1, 1, batch[self.field].shape[1])[:, None]
        rows = (self.table(batch[self.field]) * weights).sum(1)
        return self.last(torch.tanh(self.first(batch["x"] + rows))).squeeze(1)


def loss(output: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return nn.functional.mse_loss(output, batch["target"])


def config(optimizer: Optimizer, field: str = "few", size: int = BATCH, **more: Any) -> umiak.Config:
    return umiak.Config(
        model=lambda: Net(umiak.nn.SparseEmbedding(DIM, VOCAB, std=0.5), field),
        train=samples(),
        loss=loss,
        optimizer=optimizer,
        batch_size=size,
        **more,
    )


def plain_net(field: str, sparse: bool) -> Net:
    """The same model with its table inside, as torch would have it."""
    table = nn.Embedding(VOCAB, DIM, sparse=sparse)
    rows = np.empty((VOCAB, DIM), np.float32)
    RowInit.of(SEED, "table.weight", {"kind": "normal", "mean": 0.0, "std": 0.5}).fill(np.arange(VOCAB), rows)
    table.weight.data = torch.from_numpy(rows)
    return Net(table, field)


def rounds(passes: int, size: int = TRAINERS * BATCH) -> Iterator[tuple[int, dict[str, torch.Tensor]]]:
    """The samples of each round, all trainers together, and its pass."""
    for pass_id in range(passes):
        for batch in samples().batches(size, Shard(), mix(SEED, pass_id)):
            yield pass_id, {name: torch.from_numpy(value) for name, value in batch.items()}


def values(out: Path, pass_id: int = PASSES - 1) -> dict[str, np.ndarray]:
    shapes = {"first.weight": (6, DIM), "first.bias": (6,), "last.weight": (1, 6), "last.bias": (1,)}
    shapes["table.weight"] = (VOCAB, DIM)
    directory = out / f"pass-{pass_id:05d}"
    return {n: read_parameter(directory / n, int(np.prod(shape))).reshape(shape) for n, shape in shapes.items()}


def assert_same(found: dict[str, np.ndarray], net: nn.Module, tolerance: float = 2e-5) -> None:
    """Relative to the size of each parameter: float32 sums taken in another order differ in their last bits."""
    for name, parameter in net.named_parameters():
        expected = parameter.detach().numpy()
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found[name], expected, rtol=0, atol=tolerance * scale, err_msg=name)


@pytest.fixture(scope="module")
def three() -> Iterator[Server]:
    with server(TRAINERS) as running:
        yield running


@pytest.fixture(scope="module")
def two() -> Iterator[Server]:
    with server(2, (BOTH, BOTH)) as running:
        yield running


SPARSE_ADAM = (torch.optim.Adam, torch.optim.SparseAdam)
OPTIMIZERS: dict[str, tuple[Optimizer, tuple[Callable[..., torch.optim.Optimizer], ...], dict[str, Any]]] = {
    "sgd": (umiak.SGD(0.1), (torch.optim.SGD,), {"lr": 0.1}),
    "adagrad": (umiak.AdaGrad(0.05), (torch.optim.Adagrad,), {"lr": 0.05}),
    "adam": (umiak.Adam(0.01), SPARSE_ADAM, {"lr": 0.01}),
}
ALL_ROWS: dict[str, tuple[Optimizer, Callable[..., torch.optim.Optimizer], dict[str, Any]]] = {
    "momentum": (umiak.SGD(0.02, momentum=0.9), torch.optim.SGD, {"lr": 0.02, "momentum": 0.9}),
    "rmsprop": (umiak.RMSProp(0.003), torch.optim.RMSprop, {"lr": 0.003}),
    "adamw": (umiak.AdamW(0.01, l2=0.1), torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
    "adadelta": (umiak.AdaDelta(0.5), torch.optim.Adadelta, {"lr": 0.5}),
}


def torch_training(net: nn.Module, optimizers: list[torch.optim.Optimizer], passes: int = PASSES) -> None:
    for _, batch in rounds(passes):
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss(net(batch), batch).backward()
        for optimizer in optimizers:
            optimizer.step()


def halves(net: Net) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    return [*net.first.parameters(), *net.last.parameters()], list(net.table.parameters())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_trainer_three_trainers_and_torch_with_sparse_gradients_agree(
    name: str, tmp_path: Path, three: Server
) -> None:
    ours, theirs, arguments = OPTIMIZERS[name]
    net = plain_net("few", sparse=True)
    torch_training(net, [kind(part, **arguments) for kind, part in zip((theirs * 2)[:2], halves(net), strict=True)])
    train(config(ours, size=TRAINERS * BATCH), tmp_path / "alone", num_passes=PASSES)
    train(config(ours), tmp_path / "together", three, num_passes=PASSES)
    assert_same(values(tmp_path / "alone"), net)
    assert_same(values(tmp_path / "together"), net)


@pytest.mark.parametrize("name", ALL_ROWS)
def test_they_agree_where_torch_has_no_sparse_form_and_every_round_uses_every_row(
    name: str, tmp_path: Path, three: Server
) -> None:
    ours, theirs, arguments = ALL_ROWS[name]
    net = plain_net("ids", sparse=False)
    torch_training(net, [theirs(net.parameters(), **arguments)])
    train(config(ours, "ids", TRAINERS * BATCH), tmp_path / "alone", num_passes=PASSES)
    train(config(ours, "ids"), tmp_path / "together", three, num_passes=PASSES)
    assert_same(values(tmp_path / "alone"), net)
    assert_same(values(tmp_path / "together"), net)


def test_a_row_that_no_sample_uses_never_changes(tmp_path: Path) -> None:
    job = config(umiak.Adam(0.1))
    unused = VOCAB - 1
    few = {name: samples()[name] for name in samples().names} | {"few": samples()["few"] % unused}
    train(replace(job, train=Columns(few)), tmp_path, num_passes=1)
    rows, began = values(tmp_path, 0)["table.weight"], plain_net("few", sparse=True).table.weight.detach().numpy()
    np.testing.assert_array_equal(rows[unused], began[unused])
    assert (rows[:unused] != began[:unused]).all()


def scheduled(schedule: Schedule, lr: float) -> Net:
    """Plain SGD whose learning rate the schedule sets, by hand."""
    net = plain_net("few", sparse=True)
    optimizer = torch.optim.SGD(net.parameters())
    seen = 0
    for pass_id, batch in rounds(PASSES):
        seen += len(batch["target"])
        optimizer.param_groups[0]["lr"] = lr * schedule.factor(seen, pass_id)
        optimizer.zero_grad()
        loss(net(batch), batch).backward()
        optimizer.step()
    return net


@pytest.mark.parametrize("schedule", [Poly(0.01, 0.5), PassManual(((0, 1.0), (1, 0.1)))], ids=["samples", "passes"])
def test_schedules_count_the_samples_of_all_trainers_and_the_passes(
    schedule: Schedule, tmp_path: Path, three: Server
) -> None:
    train(config(umiak.SGD(0.1, schedule=schedule)), tmp_path, three, num_passes=PASSES)
    assert_same(values(tmp_path), scheduled(schedule, 0.1))


def test_l1_l2_clipping_and_options_of_single_parameters_reach_the_servers(tmp_path: Path, three: Server) -> None:
    options = {
        "*.bias": ParamOptions(lr=0.0),
        "first.weight": ParamOptions(lr=0.5, l1=0.1, l2=0.0),
        "table.weight": ParamOptions(optimizer=umiak.AdaGrad(0.05)),
    }
    job = config(umiak.SGD(0.1, l2=0.01, clip=0.05), parameters=options)
    train(job, tmp_path, three, num_passes=1)

    net = plain_net("few", sparse=True)
    dense = torch.optim.SGD(
        [{"params": [net.first.weight], "lr": 0.05}, {"params": [net.last.weight], "weight_decay": 0.01}], lr=0.1
    )
    rows = torch.optim.Adagrad(net.table.parameters(), lr=0.05)
    for _, batch in rounds(1):
        net.zero_grad()
        loss(net(batch), batch).backward()
        for weight in (net.first.weight, net.last.weight):
            assert weight.grad is not None
            weight.grad.clamp_(-0.05, 0.05)
        dense.step()
        rows.step()
        with torch.no_grad():
            weight = net.first.weight
            weight.copy_(weight.sign() * (weight.abs() - 0.05 * 0.1).clamp(min=0))
    assert_same(values(tmp_path, 0), net)


def test_a_trainer_out_of_data_takes_part_until_the_pass_ends(tmp_path: Path, three: Server) -> None:
    """Trainer 0 has five batches, trainer 1 two, trainer 2 none: later rounds are those of fewer trainers."""
    parts = [batch for _, batch in rounds(1, 8)][:7]
    owned = {0: parts[:5], 1: parts[5:], 2: []}

    def batches(shard: Shard) -> Iterator[dict[str, Any]]:
        yield from ({n: v.numpy() for n, v in batch.items()} for batch in owned[shard.index])

    uneven = replace(config(umiak.SGD(0.1)), train=batch_provider(batches))
    events = train(uneven, tmp_path, three, num_passes=PASSES)

    net = plain_net("few", sparse=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(PASSES):
        for number in range(5):
            present = [part[number] for part in owned.values() if number < len(part)]
            batch = {name: torch.cat([part[name] for part in present]) for name in present[0]}
            optimizer.zero_grad()
            loss(net(batch), batch).backward()
            optimizer.step()
    assert_same(values(tmp_path), net)
    assert [(e.round, e.samples) for e in events if isinstance(e, Pass)] == [(5, 56), (10, 112)]


def test_init_from_goes_on_with_the_optimizers_state(tmp_path: Path, three: Server, two: Server) -> None:
    """The second run has other trainers, services and batches; Adam's moments and step number go on in torch and here."""
    adam = umiak.Adam(0.01)
    train(config(adam), tmp_path / "first", three)
    again = config(adam, size=TRAINERS * BATCH // 2)
    train(again, tmp_path / "second", two, init_from=tmp_path / "first")
    net = plain_net("few", sparse=True)
    dense, table = halves(net)
    optimizers = [torch.optim.Adam(dense, lr=0.01), torch.optim.SparseAdam(table, lr=0.01)]
    torch_training(net, optimizers, passes=1)
    assert_same(values(tmp_path / "first", 0), net)
    torch_training(net, optimizers, passes=1)
    assert_same(values(tmp_path / "second", 0), net)


def test_init_model_path_takes_values_and_begins_with_fresh_state(tmp_path: Path, three: Server) -> None:
    adam = umiak.Adam(0.01)
    train(config(adam), tmp_path / "first", three)
    train(config(adam, size=TRAINERS * BATCH), tmp_path / "second", init_model_path=tmp_path / "first")
    net = plain_net("few", sparse=True)
    for _ in range(2):
        dense, table = halves(net)
        torch_training(net, [torch.optim.Adam(dense, lr=0.01), torch.optim.SparseAdam(table, lr=0.01)], passes=1)
    assert_same(values(tmp_path / "second", 0), net)


@pytest.mark.parametrize("how", ["init_from", "init_model_path"])
def test_a_run_that_begins_with_another_takes_its_buffers_on_every_trainer(
    how: str, tmp_path: Path, two: Server
) -> None:
    """A BatchNorm counts its batches: 63 alone in the first run, then 32 by each of two trainers."""
    loaded = load_config(TINY, {})
    train(loaded, tmp_path / "first")
    train(loaded, tmp_path / "second", two, **{how: tmp_path / "first"})
    counts = [load_file(tmp_path / out / "pass-00000/buffers.safetensors") for out in ("first", "second")]
    assert [int(buffers["norm.num_batches_tracked"]) for buffers in counts] == [63, 63 + 32]


def test_rows_of_one_service_are_shared_out_to_many(tmp_path: Path, two: Server) -> None:
    loaded = load_config(TINY, {})
    train(loaded, tmp_path / "first")
    train(loaded, tmp_path / "second", two, init_from=tmp_path / "first")
    parts = [load_file(path)["ids"] for path in sorted((tmp_path / "second/pass-00000").glob("item.weight.service-*"))]
    assert [len(part) > 0 for part in parts] == [True, True]
    assert sorted(torch.cat(parts).tolist()) == sorted(set(loaded.config.train["item"].tolist()))  # type: ignore[index]


def test_start_pass_goes_on_from_the_pass_before_with_its_own_data_and_schedule(tmp_path: Path) -> None:
    """Without optimizer state, which a snapshot does not hold, the bytes are those of one uninterrupted run."""
    job = config(umiak.SGD(0.1, schedule=PassManual(((0, 1.0), (1, 0.1), (2, 0.5)))))
    train(job, tmp_path / "whole", num_passes=3)
    train(job, tmp_path / "parts", num_passes=1)
    train(job, tmp_path / "parts", num_passes=2, start_pass=1)
    assert files(tmp_path / "whole") == files(tmp_path / "parts")


def files(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.glob("pass-*/*"))}


def test_two_runs_alone_give_the_same_bytes_with_dropout_and_batch_norm(tmp_path: Path) -> None:
    loaded = load_config(TINY, {})
    for name in ("one", "two"):
        train(loaded, tmp_path / name, num_passes=2)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert (tmp_path / "one/pass-00001/buffers.safetensors").exists()


def test_two_jobs_of_three_workers_give_the_same_bytes_with_dropout_and_batch_norm(tmp_path: Path) -> None:
    for name in ("one", "two"):
        umiak_command("train", TINY, "--passes", "2", "--out", tmp_path / name)
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_another_seed_gives_another_model(tmp_path: Path) -> None:
    for seed in (1, 2):
        train(config(umiak.SGD(0.1)), tmp_path / str(seed), seed=seed)
    assert (values(tmp_path / "1", 0)["table.weight"] != values(tmp_path / "2", 0)["table.weight"]).all()
