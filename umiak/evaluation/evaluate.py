"""What a snapshot scores on the test data, and what it predicts for them. Rows that training never met are not created."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from umiak import logs
from umiak.data.columns import count
from umiak.data.usercode import invoke
from umiak.errors import InputError
from umiak.evaluation.loading import config_of, load_model
from umiak.files import Writer, atomic, check_target
from umiak.rundir import layout
from umiak.rundir.snapshot import find
from umiak.spec.config import Config, Shard
from umiak.spec.settings import Settings
from umiak.trainer import forward
from umiak.trainer.prefetch import Prefetch
from umiak.trainer.totals import Totals

log = logging.getLogger("umiak.trainer")


def test(settings: Settings) -> dict[str, Any]:
    """The snapshot tested, how many samples, their mean cost, and each metric."""
    snapshot, config, model, device = _open(settings)
    totals = Totals(config.metrics)
    for batch, samples in test_batches(config, device):
        output, loss = forward.run(model, config, batch)
        totals.add(float(loss), samples, output, batch)
    values = totals.values()
    others = {name: value for name, value in values.items() if name != "cost"}
    log.info(logs.tested_line(_pass_of(snapshot), totals.samples, values["cost"], others))
    return {"snapshot": str(snapshot), "samples": totals.samples, **values}


def predict(settings: Settings, output: Path) -> None:
    """Write one line per test sample, in order: what the model gives for it, values separated by spaces.

    Config.predict, if there is one, turns the output of a batch into what is written. Where that is a tuple, each of its
    parts ends with a semicolon, as in 2016.
    """
    if output.exists() and not settings.overwrite:
        raise InputError(f"{output} exists: choose another --output or replace it with --overwrite")
    check_target(output)
    _, config, model, device = _open(settings)
    with atomic(output) as file:
        for batch, samples in test_batches(config, device):
            result = invoke(model, batch, blame=model.forward)
            _write(file, invoke(config.predict, result) if config.predict else result, samples)


def _pass_of(snapshot: Path) -> int:
    name = snapshot.resolve().name  # a user may name a link, such as `best`
    number = name[5:10]
    return int(number) if name.startswith(layout.PASS) and number.isdigit() else 0


def _open(settings: Settings) -> tuple[Path, Config, nn.Module, torch.device]:
    snapshot = find(settings.init_model_path or settings.save_dir, settings.test_pass)
    device = forward.choose_device(settings.use_gpu)
    torch.set_num_threads(settings.trainer_count)
    loaded = config_of(snapshot, settings.config, settings.config_args, replace(settings, job="test"))
    return snapshot, loaded.config, load_model(snapshot, loaded.config, device), device


def test_batches(config: Config, device: torch.device) -> Iterator[tuple[dict[str, Any], int]]:
    """The whole test set in its own order."""
    if config.test is None:
        raise InputError("the config has no test data: give Config(test=...) a source")
    prefetch = Prefetch(config.test.batches(config.batch_size, Shard(), None, 0))
    empty = True
    try:
        with torch.no_grad():
            while (batch := prefetch.next()) is not None:
                empty = False
                tensors = forward.to_tensors(batch)
                yield (
                    {name: forward.to_device(value, device) for name, value in tensors.items()},
                    count(next(iter(batch.values()))),
                )
    finally:
        prefetch.close()
    if empty:
        raise InputError("the test data are empty: look at the source given as Config(test=...)")


def _write(file: Writer, result: Any, samples: int) -> None:
    parts = [_texts(part, samples) for part in (result if isinstance(result, tuple) else (result,))]
    end = ";" if isinstance(result, tuple) else ""
    for line in range(samples):
        file.write(("".join(" ".join(texts[line]) + end for texts in parts) + "\n").encode())


def _texts(part: Any, samples: int) -> np.ndarray:
    """One line of numbers per sample, each as short as it can be and still be exact."""
    values = np.asarray(part.detach().cpu() if isinstance(part, torch.Tensor) else part)
    if values.ndim == 0 or len(values) != samples:
        raise InputError(
            f"predictions need one entry per sample: {samples} samples gave an output of shape {values.shape}; "
            "Config(predict=...) can choose what is written"
        )
    return values.reshape(samples, -1).astype(str)
