"""`umiak test SNAPSHOT`: what a snapshot scores on the test data."""

from __future__ import annotations

import logging
import sys

from umiak import logs
from umiak.cli.arguments import settings
from umiak.spec.settings import Settings

ABOUT = """A SNAPSHOT is a directory like out/first/pass-00009 and knows its config.
With a CONFIG instead, --out and --pass say which snapshot is meant."""


def run(argv: list[str]) -> int:
    return show(settings("test", argv, ABOUT))


def show(read: Settings) -> int:
    """Also what `--job=test` means, which then says it as 2016 did, too."""
    from umiak.evaluation import evaluate

    if read.job == "test":
        logs.echo(sys.stderr)
        logging.getLogger("umiak").setLevel(logging.INFO)
    for name, value in evaluate.test(read).items():
        print(f"{name:<12} {value:g}" if isinstance(value, float) else f"{name:<12} {value}")
    return 0
