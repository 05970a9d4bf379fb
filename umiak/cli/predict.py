"""`umiak predict SNAPSHOT --output FILE`: a snapshot's outputs for the test data."""

from __future__ import annotations

from umiak.cli.arguments import required, settings

ABOUT = "One line per sample, in the order of the test data."


def run(argv: list[str]) -> int:
    read = settings("predict", argv, ABOUT)
    output = required(read.output, "predict", "--output FILE")

    from umiak.evaluation import evaluate

    evaluate.predict(read, output)
    print(output)
    return 0
