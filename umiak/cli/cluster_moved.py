"""This machine's public address has changed and the API server no longer answers: offer to let the new one in."""

from __future__ import annotations

import sys
from pathlib import Path

from umiak.address import AddressChangedError
from umiak.cli import cluster
from umiak.errors import InputError


def let_in(error: AddressChangedError) -> bool:
    """Ask, and if the answer is yes run `umiak cluster up --api-access mine`; whether the address was let in.

    Asks nothing without a terminal, where another cluster's file lies, or where addresses were chosen by hand: the command
    would replace them all.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()) or not _is_ours(error):
        return False
    print(
        "umiak: the API server does not answer because the public address of this machine has changed.\n"
        "Run `umiak cluster up --api-access mine` now? It shows what changes before it changes anything. [y/N] ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        return False
    return cluster.run(["up", "--api-access", "mine"]) == 0


def _is_ours(error: AddressChangedError) -> bool:
    """Whether the cluster file here is that of the API server, and both let in one address only, as `mine` writes it."""
    from umiak.spec import yamlfile
    from umiak.spec.cluster import ClusterSpec

    try:
        spec: ClusterSpec = yamlfile.load(Path(cluster.FILE), ClusterSpec)
    except InputError:
        return False
    chosen = (error.cidrs, spec.kubernetes.api_cidrs)
    by_mine = all(len(cidrs) == 1 and cidrs[0].endswith("/32") for cidrs in chosen)
    return by_mine and f"{spec.name}.{spec.region}" == error.context
