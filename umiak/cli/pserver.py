"""`umiak pserver`: one parameter server in the foreground."""

from __future__ import annotations

from umiak.cli.arguments import settings

ABOUT = "Listens on --nics from --port on: --ports-num dense ports, then --ports-num-for-sparse for tables."


def run(argv: list[str]) -> int:
    read = settings("pserver", argv, ABOUT)

    from umiak.worker import roles

    return roles.pserver(read)
