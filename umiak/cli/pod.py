"""`umiak pod`: what a pod of a job runs. It is started by Kubernetes, told everything by its environment.

`umiak pod tutorial 2016|2017 FLAGS` and `umiak pod data` are for the images that stand in for those of the old tutorials.
"""

from __future__ import annotations

import os

from umiak.errors import InputError


def run(argv: list[str]) -> int:
    match argv:
        case []:
            from umiak.pod.main import main

            return main(os.environ)
        case ["tutorial", ("2016" | "2017") as generation, *flags]:
            from umiak.paddle_v1.pods import tutorial

            return tutorial.main(os.environ, generation, flags)
        case ["data"]:
            from umiak.paddle_v1.pods import tutorial_data

            return tutorial_data.main(os.environ)
    raise InputError(
        f"umiak pod takes no arguments, and was given {argv[0]!r}; docs/pod-contract.md says what it reads"
    )
