"""`umiak export SNAPSHOT --output FILE`: a model for other tools."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from umiak.cli.arguments import own, required
from umiak.spec.flags import Own
from umiak.spec.settings import Flag

ABOUT = "Writes safetensors: dense parameters by name, tables as ids and rows."


@dataclass(frozen=True)
class Arguments:
    snapshot: Path | None = None
    output: Path | None = None
    overwrite: bool = False


ARGUMENTS = Own(
    Arguments,
    {
        "snapshot": Flag("a snapshot directory to load", aliases=("init_model_path",)),
        "output": Flag("the file to write"),
        "overwrite": Flag("replace an existing file"),
    },
    positional="snapshot",
    metavar="SNAPSHOT",
)


def run(argv: list[str]) -> int:
    read = own("export", argv, ARGUMENTS, ABOUT)
    snapshot = required(read.snapshot, "export", "a SNAPSHOT")
    output = required(read.output, "export", "--output FILE")

    from umiak.evaluation import export

    export.export(snapshot, output, read.overwrite)
    print(output)
    return 0
