"""`umiak pod`: what a pod of a job runs. It is started by Kubernetes, told everything by its environment."""

from __future__ import annotations

import os

from umiak.errors import InputError


def run(argv: list[str]) -> int:
    if argv:
        raise InputError(
            f"umiak pod takes no arguments, and was given {argv[0]!r}; docs/pod-contract.md says what it reads"
        )

    from umiak.pod.main import main

    return main(os.environ)
