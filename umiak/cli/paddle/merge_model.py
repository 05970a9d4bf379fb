"""`paddle merge_model --model_dir=SNAPSHOT --model_file=FILE`: config and parameters in the one file that v1's C API reads."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

from umiak.cli.arguments import required, settings
from umiak.cli.paddle.environment import paddle_version
from umiak.errors import InputError
from umiak.files import atomic

if TYPE_CHECKING:
    from umiak.paddle_v1.graph import Graph
    from umiak.rundir.snapshot import Contents

ABOUT = """The file has v1's layout: the length of the config in 8 bytes, the config as a TrainerConfig message, then each
parameter as in its own file. --config_args are added to those that the snapshot was trained with."""


def run(argv: list[str]) -> int:
    read = settings("paddle merge_model", argv, ABOUT)
    snapshot = required(read.model_dir, "paddle merge_model", "--model_dir=SNAPSHOT")
    file = required(read.model_file, "paddle merge_model", "--model_file=FILE")

    from umiak.paddle_v1.language import reading
    from umiak.rundir.snapshot import Contents

    contents = Contents(snapshot)
    config = snapshot / Path(contents.read("path.txt").decode()).name
    if not config.is_file():
        raise InputError(f"{snapshot} has no copy of its config, which path.txt calls {config.name}")
    contents.check_config()
    arguments = {**contents.model.get("config_args", {}), **read.config_args}
    version = read.paddle_version or contents.model.get("paddle_version") or paddle_version() or "0.10"
    _write(file, contents, reading.load(config, arguments, version, check_data=False))
    return 0


def _write(path: Path, contents: Contents, graph: Graph) -> None:
    from umiak.paddle_v1.formats import messages
    from umiak.paddle_v1.formats.modelconfig import model_config
    from umiak.paddle_v1.rules import selection
    from umiak.rundir.parameterfile import HEADER

    training = graph.settings
    optimisation = [
        ("batch_size", training.batch_size),
        ("algorithm", "async_sgd" if training.is_async else "sgd"),
        ("learning_rate", training.learning_rate),
    ]
    config = messages.binary(
        [("model_config", model_config(graph)), ("opt_config", optimisation)],
        "TrainerConfig",
    )
    with atomic(path) as file:
        file.write(struct.pack("<q", len(config)) + config)
        for name in selection.used(graph):
            count = graph.parameters[name].elements
            file.write(HEADER.pack(0, 4, count))
            file.write(contents.parameter(name, count).astype("<f4").tobytes())
