"""`umiak doctor`: is this machine ready to train, and what to do if not."""

from __future__ import annotations

import argparse
import dataclasses
import json
from itertools import chain
from pathlib import Path

from umiak.cli.arguments import Parser


def _parser() -> argparse.ArgumentParser:
    made = Parser(
        prog="umiak doctor",
        description="Checks this machine: Python, torch, memory, disk, limits, clock, extras, kubeconfig and AWS credentials. "
        "One line per check; the exit code is 2 if one failed.",
    )
    made.add_argument("--json", action="store_true", help="for programs")
    return made


def run(argv: list[str]) -> int:
    options = _parser().parse_args(argv)

    from umiak.doctor import machine, probes, report

    found = []
    for check in chain(machine.checks(Path.cwd()), probes.checks()):
        found.append(check)
        if not options.json:
            print(check.line(), flush=True)
    if options.json:
        print(json.dumps([dataclasses.asdict(check) for check in found], indent=2))
    else:
        print(report.summary(found))
    return report.exit_code(found)
