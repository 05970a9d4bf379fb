"""`umiak bench [WORKLOAD]`: how fast, against the limit and the peers."""

from __future__ import annotations

ABOUT = """WORKLOAD is recommendation, ctr, quick_start, table, wire, or all of these (the default); paddle_v1: v1 configs against
the same models in PyTorch; strangers: a member's round trips while strangers knock; scale: measured with 1, 2, 3 and 6
workers here and predicted for up to 1,000; capacity: a table grows to --rows, is checkpointed and restored. Run it on a
machine that does nothing else; docs/bench.md says more."""


def run(argv: list[str]) -> int:
    from umiak.bench.arguments import ARGUMENTS
    from umiak.cli.arguments import own

    read = own("bench", argv, ARGUMENTS, ABOUT)

    from umiak.bench.main import bench

    return bench(read)
