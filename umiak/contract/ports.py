"""Which ports a job uses, and what each service of a server holds."""

from __future__ import annotations

from typing import NamedTuple

COORDINATOR = 7163
"""The coordinator, in worker 0's pod."""
FIRST = 7164
"""The first of a pod's services."""


class Holds(NamedTuple):
    """What a service holds: dense blocks, rows of tables, or both."""

    dense: bool
    rows: bool


def services(dense: int, sparse: int) -> tuple[Holds, ...]:
    """A server's services in the order of their ports: the dense ones, then those for tables.

    Without ports for tables every service holds rows too.
    """
    return (Holds(True, not sparse),) * dense + (Holds(False, True),) * sparse
