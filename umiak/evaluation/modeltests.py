"""`paddle train --job=test`: one model after another on the test data, and their outputs as v1 wrote them."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from umiak import logs
from umiak.data.usercode import invoke
from umiak.errors import InputError
from umiak.evaluation.evaluate import test_batches
from umiak.evaluation.loading import config_of, load_model
from umiak.files import Writer, atomic, exists, make_directory
from umiak.rundir import layout
from umiak.rundir.snapshot import find
from umiak.spec.config import Config
from umiak.spec.load import Loaded
from umiak.spec.settings import Settings
from umiak.trainer import forward
from umiak.trainer.run import log_config
from umiak.trainer.totals import Totals

LOOK_SECONDS = 1.0
TOLD_SECONDS = 60.0
log = logging.getLogger("umiak.trainer")


def run(settings: Settings) -> None:
    """Test every model that is meant, and say what it scores."""
    torch.set_num_threads(settings.trainer_count)
    device = forward.choose_device(settings.use_gpu)
    loaded: Loaded | None = None
    with _outputs(settings) as file:
        for number, snapshot in models(settings):
            if loaded is None:
                loaded = config_of(snapshot, settings.config, settings.config_args, replace(settings, job="test"))
                log_config(loaded)
            _test(number, load_model(snapshot, loaded.config, device), loaded.config, device, settings, file)


def models(settings: Settings) -> Iterator[tuple[int, Path]]:
    """The snapshots to test, each with the number that its line has."""
    if settings.model_list is not None:
        yield from enumerate(find(path) for path in _listed(settings.model_list))
    elif settings.init_model_path is not None:
        yield 0, find(settings.init_model_path)
    elif settings.test_pass >= 0:
        for number in range(settings.test_pass, settings.num_passes):
            if number % settings.saving_period == 0:
                yield number, _of_pass(settings, number)
    else:
        raise InputError(
            "--job=test needs a model: --init_model_path=DIR, --model_list=FILE, or --save_dir=DIR --test_pass=N --num_passes=M "
            "for the passes N to M - 1"
        )


def _listed(path: Path) -> list[Path]:
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise InputError(f"--model_list={path} cannot be read: {error.strerror}") from None
    found = [Path(line.strip()) for line in lines if line.strip()]
    if not found:
        raise InputError(f"--model_list={path} names no snapshots: write one directory per line")
    return found


def _of_pass(settings: Settings, number: int) -> Path:
    """The snapshot of a pass; with --test_wait, as soon as it is there."""
    wanted, told = settings.save_dir / layout.snapshot_name(number), -TOLD_SECONDS
    while settings.test_wait and not exists(wanted / layout.DONE):
        if time.monotonic() - told >= TOLD_SECONDS:
            told = time.monotonic()
            log.info("Waiting for parameters of pass %d", number)
        time.sleep(LOOK_SECONDS)
    try:
        return find(settings.save_dir, number)
    except InputError as error:
        raise InputError(f"{error}; --num_passes={number} would have ended before it, --test_wait=1 waits") from None


@contextlib.contextmanager
def _outputs(settings: Settings) -> Iterator[Writer | None]:
    directory = settings.predict_output_dir
    if directory is None:
        yield None
        return
    make_directory(directory)
    with atomic(directory / f"rank-{settings.trainer_id:05d}") as file:
        yield file


def _test(
    number: int, model: nn.Module, config: Config, device: torch.device, settings: Settings, file: Writer | None
) -> None:
    """Without cost where outputs are written: a config that predicts has none, and v1 computed none."""
    totals = Totals(config.metrics)
    for index, (batch, samples) in enumerate(test_batches(config, device), 1):
        if file is None:
            output, loss = forward.run(model, config, batch)
            totals.add(float(loss), samples, output, batch)
        else:
            output = invoke(model, batch, blame=model.forward)
            totals.add(0.0, samples, output, batch)
            _write(file, invoke(config.predict, output) if config.predict else output)
        if settings.log_period and index % settings.log_period == 0:
            cost = logs.number(totals.values()["cost"])
            log.info(" Batch=%d samples=%d AvgCost=%s", index, totals.samples, cost)
    values = totals.values()
    log.info(logs.tested_line(number, totals.samples, values.pop("cost"), values))


def _write(file: Writer, result: Any) -> None:
    """A line of text for each line of the outputs: the numbers of each output, and a semicolon after it."""
    parts = [_texts(part) for part in (result if isinstance(result, tuple) else (result,))]
    if len({len(part) for part in parts}) > 1:
        lengths = ", ".join(str(len(part)) for part in parts)
        raise InputError(f"--predict_output_dir: the outputs have {lengths} lines; all must have the same number")
    for texts in zip(*parts, strict=True):
        file.write(("".join(f"{text};" for text in texts) + "\n").encode())


def _texts(part: Any) -> list[str]:
    values = np.asarray(part.detach().cpu() if isinstance(part, torch.Tensor) else part)
    rows = values.reshape(len(values), -1)
    written = str if rows.dtype.kind in "iub" else logs.number
    return [" ".join(written(value) for value in row) for row in rows.tolist()]
