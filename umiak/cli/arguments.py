"""What every verb does first: read its flags, answer --help, show warnings."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NoReturn, TypeVar

from umiak.errors import InputError
from umiak.spec.flags import Own, Settings, called, help_own, help_text, parse, parse_own

S = TypeVar("S")


class Parser(argparse.ArgumentParser):
    """For verbs with words and flags of their own. What it cannot read is an InputError like any other."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{self.prog}: {message}; see {self.prog} --help")


def settings(verb: str, argv: list[str], about: str) -> Settings:
    """The verb's settings. `--help` prints `about` and the flags, and ends the program."""
    if "--help" in argv or "-h" in argv:
        print(f"{help_text(verb)}\n\n{about}", flush=True)
        raise SystemExit(0)
    read = parse(verb, argv)
    for warning in read.warnings:
        print(f"{called(verb).split()[0]}: warning: {warning}", file=sys.stderr)
    return read


def own(verb: str, argv: list[str], arguments: Own[S], about: str) -> S:
    """The same for a verb that shares its arguments with no other."""
    if "--help" in argv or "-h" in argv:
        print(f"{help_own(verb, arguments)}\n\n{about}", flush=True)
        raise SystemExit(0)
    return parse_own(verb, argv, arguments)


def required(value: Path | None, verb: str, what: str) -> Path:
    if value is None:
        raise InputError(f"{called(verb)} needs {what}; see {called(verb)} --help")
    return value
