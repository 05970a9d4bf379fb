"""umiak bench paddle_v1: what is compared computes the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from umiak.bench import lstm, paddle_v1
from umiak.bench.run import Run
from umiak.bench.systems import V1_TRAINED
from umiak.bench.workloads import WORKLOADS
from umiak.paddle_v1.network.lstm import lstm as ours
from umiak.trainer.forward import to_tensors


@pytest.mark.slow
def test_the_hand_written_lstms_compute_what_ours_does() -> None:
    offsets = torch.tensor([0, 3, 4, 9, 11])
    tensors = [torch.randn(shape) for shape in ((11, 4 * 6), (6, 4 * 6), (7 * 6,))]
    grad = torch.randn(11, 6)
    found = []
    scripted = torch.jit.script(lstm._steps)
    for layer in (ours, lstm._packed(lstm._steps), lstm._packed(scripted), lstm.fused(lambda gates: gates)):
        leaves = [tensor.clone().requires_grad_() for tensor in tensors]
        out = layer(leaves[0], offsets, *leaves[1:])
        out.backward(grad)
        found.append([out.detach(), *(leaf.grad for leaf in leaves)])
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            torch.testing.assert_close(one, same, atol=2e-6, rtol=1e-5)


FC, EMBEDDING, CONV = "___fc_layer_{}__", "___embedding_{}__.w0", "___sequence_conv_pooling_0___conv_fc"


def linear(name: str, native: str, inputs: int = 1) -> dict[str, tuple[str, ...]]:
    return {
        f"{native}.weight": tuple(f"{name}.w{number}" for number in range(inputs)),
        f"{native}.bias": (f"{name}.wbias",),
    }


SAME: dict[str, dict[str, tuple[str, ...]]] = {
    "v1-lr": {"words.weight": ("___fc_layer_0__.w0",), "bias": ("___fc_layer_0__.wbias",)},
    "v1-cnn": {
        "words.weight": (EMBEDDING.format(0),),
        **linear(CONV, "windows.layer"),
        **linear(FC.format(0), "classes"),
    },
    "v1-recommendation": {
        "words.weight": (EMBEDDING.format(0),),
        **linear(CONV, "title.layer"),
        **linear(FC.format(0), "genres"),
        **linear(FC.format(1), "more_genres"),
        **linear(FC.format(3), "movie_tower", 3),
        **linear(FC.format(8), "user_tower", 4),
        **{
            key: value
            for number, field, fc in (
                (1, "movie", 2),
                (2, "user", 4),
                (3, "gender", 5),
                (4, "age", 6),
                (5, "occupation", 7),
            )
            for key, value in {
                f"ids.{field}.weight": (EMBEDDING.format(number),),
                **linear(FC.format(fc), f"layers.{field}"),
            }.items()
        },
    },
}
"""The parameters of the native models, and those of v1 that they are made of."""


@pytest.mark.parametrize("workload", V1_TRAINED)
def test_the_native_model_with_the_parameters_of_the_config_has_its_loss(workload: str, tmp_path: Path) -> None:
    run = Run(workload, "umiak", 1.0, 1, tmp_path, tmp_path)
    columns = WORKLOADS[workload].samples(40)
    batch = to_tensors(columns.take(np.arange(30)))
    configs = [make(run)(columns) for make in (paddle_v1.of_v1, paddle_v1.of_native)]
    network, native = (config.model() for config in configs)
    given = dict(network.named_parameters())
    assert sum(p.numel() for p in given.values()) == sum(p.numel() for p in native.parameters())
    with torch.no_grad():
        for name, parameter in native.named_parameters():
            value = torch.cat([given[part] for part in SAME[workload][name]])
            transposed = isinstance(native.get_submodule(name.rpartition(".")[0]), torch.nn.Linear)
            parameter.copy_(value.t() if transposed else value)
    losses = [float(c.loss(m(batch), batch).detach()) for c, m in zip(configs, (network, native), strict=True)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
