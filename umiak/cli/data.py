"""`umiak data fetch NAME`: the example data sets."""

from __future__ import annotations

from umiak.cli.arguments import settings
from umiak.cli.main import nearest
from umiak.errors import InputError

VERBS = {"fetch": "fetch a data set unless it is already there"}
ABOUT = "NAME is movielens or reviews."


def run(argv: list[str]) -> int:
    verb = argv[0] if argv else "--help"
    if verb in ("--help", "-h"):
        print("usage: umiak data VERB …\n\n" + "\n".join(f"  {name:<10} {text}" for name, text in VERBS.items()))
        return 0
    if verb not in VERBS:
        raise InputError(f"unknown verb 'data {verb}'{nearest(verb, list(VERBS))}; umiak data --help lists all")
    return _fetch(argv[1:])


def _fetch(argv: list[str]) -> int:
    read = settings("data fetch", argv, ABOUT)
    if not read.dataset:
        raise InputError("umiak data fetch needs a NAME: movielens or reviews")

    from umiak.data.fetch import fetch

    print(fetch(read.dataset, read.directory))
    return 0
