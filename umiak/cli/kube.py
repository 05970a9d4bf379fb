"""What every verb that talks to Kubernetes takes: --kubeconfig, --context, -n, and what they lead to."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from umiak.address import AddressChangedError
from umiak.cli import cluster_moved
from umiak.extras import needed

if TYPE_CHECKING:
    from umiak.kube.api import Api


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="default $KUBECONFIG, ./kubeconfig if umiak cluster wrote it, or ~/.kube/config",
    )
    parser.add_argument("--context", metavar="NAME", help="default the kubeconfig's current one")
    parser.add_argument("-n", "--namespace", metavar="NAME", help="default the context's")


def connect(options: argparse.Namespace, written: str | None = None) -> tuple[Api, str]:
    """The API server, and the namespace: of the command line, else the `written` one, else the context's."""
    from umiak.kube import kubeconfig
    from umiak.kube.api import Api

    access = kubeconfig.load(options.kubeconfig, options.context, os.environ)
    return Api(access), options.namespace or written or access.namespace


def with_extra(verb: str, run: Callable[[], int]) -> int:
    """Run it; a missing library is one line about what to install. Where our address has changed and the user wants the new
    one let in, run it again afterwards."""
    with needed("kube", f"umiak {verb} needs"):
        try:
            return run()
        except AddressChangedError as error:
            if not cluster_moved.let_in(error):
                raise
            return run()
