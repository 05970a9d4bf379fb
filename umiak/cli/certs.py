"""`umiak certs DIR --workers N`: the certificates of one job."""

from __future__ import annotations

from umiak.cli.arguments import required, settings

ABOUT = """Writes DIR/worker-N for every worker: ca.pem, cert.pem and key.pem, valid for a year.
umiak train takes --tls DIR; a role on another machine needs only its own worker-N, and takes --tls worker-N."""


def run(argv: list[str]) -> int:
    read = settings("certs", argv, ABOUT)
    directory = required(read.tls, "certs", "a DIR")

    from umiak.wire import credentials

    for path in credentials.write(directory, read.workers, read.overwrite):
        print(path)
    return 0
