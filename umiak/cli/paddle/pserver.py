"""`paddle pserver`: one parameter server in the foreground."""

from __future__ import annotations

from umiak.cli.arguments import settings

ABOUT = """Listens on --nics from --port on: --ports_num ports for dense parameters, then --ports_num_for_sparse for tables.
Where other machines can reach it, trainers need its token: UMIAK_TOKEN, or the file that the first server writes."""


def run(argv: list[str]) -> int:
    read = settings("paddle pserver", argv, ABOUT)

    from umiak.paddle_v1.command import v1_roles

    return v1_roles.pserver(read)
