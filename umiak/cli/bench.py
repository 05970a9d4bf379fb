"""`umiak bench [WORKLOAD]`: how fast, against the limit and the peers."""

from __future__ import annotations

ABOUT = """WORKLOAD is recommendation, ctr, quick_start, table, wire, or all of these (the default); paddle_v1: v1 configs against
the same models in PyTorch; strangers: a member's round trips while unknown clients try to connect; scale: measures 1, 2, 3
and 6 workers here and predicts up to 1,000; capacity: a table grows to --rows, is checkpointed and restored; data: the model of
ctr fed from memory, from Parquet and from S3, the reader alone, and a pass over five times the memory. Run it on an otherwise
idle machine; see docs/bench.md."""


def run(argv: list[str]) -> int:
    from umiak.bench.arguments import ARGUMENTS
    from umiak.cli.arguments import own

    read = own("bench", argv, ARGUMENTS, ABOUT)

    from umiak.bench.main import bench
    from umiak.system import need_linux

    need_linux("umiak bench", "measure on the machine that trains")

    return bench(read)
