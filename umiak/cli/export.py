"""`umiak export SNAPSHOT --output FILE`: a model for other tools."""

from __future__ import annotations

from umiak.cli.arguments import required, settings

ABOUT = "Writes safetensors: dense parameters by name, tables as ids and rows."


def run(argv: list[str]) -> int:
    read = settings("export", argv, ABOUT)
    snapshot = required(read.init_model_path, "export", "a SNAPSHOT")
    output = required(read.output, "export", "--output FILE")

    from umiak.evaluation import export

    export.export(snapshot, output, read.overwrite)
    print(output)
    return 0
