"""`umiak predict SNAPSHOT --output FILE [--data PATTERN]`: a snapshot's outputs for the test data, or for any files."""

from __future__ import annotations

from pathlib import Path

from umiak.cli.arguments import required, settings
from umiak.cli.bar import bar
from umiak.errors import InputError
from umiak.spec.settings import Settings

ABOUT = """Without --data: one line per sample, in the order of the test data.
With --data, FILE is Parquet and has a row for every row of the files, in their order: the columns that --keep names, then
what the model gives. --workers share the work. A run that was killed continues when the same command is given again."""


def run(argv: list[str]) -> int:
    read = settings("predict", argv, ABOUT)
    output = required(read.output, "predict", "--output FILE")
    if read.data:
        return _files(read, output)
    if read.keep or read.workers > 1:
        raise InputError("--keep and --workers go with --data PATTERN; without it the test data are predicted as text")

    from umiak.evaluation import evaluate

    evaluate.predict(read, output)
    print(output)
    return 0


def _files(read: Settings, output: Path) -> int:
    from umiak.evaluation import predicting

    with bar("predicting", "rows") as show:
        done = predicting.predict(read, output, show)
    left_out = f", {done.left_out:,} left out by the parse function" if done.left_out else ""
    print(f"{done.rows:,} rows{left_out}")
    print(output)
    return 0
