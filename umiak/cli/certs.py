"""`umiak certs DIR --workers N`: the certificates of one job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from umiak.cli.arguments import own, required
from umiak.spec.flags import Own
from umiak.spec.settings import Flag

ABOUT = """Writes DIR/worker-N for every worker: ca.pem, cert.pem and key.pem, valid for a year.
umiak train takes --tls DIR; a role on another machine needs only its own worker-N, and takes --tls worker-N."""


@dataclass(frozen=True)
class Arguments:
    directory: Path | None = None
    workers: int = 3
    overwrite: bool = False


ARGUMENTS = Own(
    Arguments,
    {
        "directory": Flag("where they go", aliases=("tls",)),
        "workers": Flag("number of workers: a trainer and a parameter server each", minimum=1),
        "overwrite": Flag("replace existing certificates"),
    },
    positional="directory",
    metavar="DIR",
)


def run(argv: list[str]) -> int:
    read = own("certs", argv, ARGUMENTS, ABOUT)
    directory = required(read.directory, "certs", "a DIR")

    from umiak.wire import credentials

    for path in credentials.write(directory, read.workers, read.overwrite):
        print(path)
    return 0
