"""`umiak data fetch | split | verify`: get data sets, and cut them into shards."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from umiak.cli.arguments import Parser

if TYPE_CHECKING:
    from umiak.data.shards import Manifest

LAYOUTS = ("2017", "2016")


def run(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    code: int = options.verb(options)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="umiak data", description="Get data sets and cut them into shards, one per trainer.")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    fetch = verbs.add_parser("fetch", help="fetch a data set unless it is already there")
    fetch.add_argument("name", metavar="NAME", help="movielens or reviews")
    fetch.add_argument("--directory", type=Path, metavar="DIR", help="default $UMIAK_DATA, or ./data")
    fetch.set_defaults(verb=_fetch)

    split = verbs.add_parser(
        "split",
        help="cut a file or a directory into shards",
        description="Deals the samples out in turn: a line of .txt .csv .tsv .jsonl (also .gz), or a Parquet row. In a "
        "directory with a train.list the files it names are cut; else all files of these kinds. Other files are whole in "
        "every shard. Interrupted, the same command goes on.",
    )
    split.add_argument("source", metavar="SOURCE", help="a file or a directory, or http(s):// or s3://")
    split.add_argument("out", type=Path, metavar="OUT", help="where the shards and their manifest go")
    split.add_argument("--shards", type=int, required=True, metavar="N", help="how many, one per trainer")
    split.add_argument(
        "--layout", choices=LAYOUTS, default="2017", help="OUT/i/data (2017, default) or OUT/data/i (2016)"
    )
    split.add_argument(
        "--whole", action="append", default=[], metavar="PATTERN", help="files that all shards get whole"
    )
    split.add_argument("--header", action="store_true", help="the first line of .csv and .tsv names columns")
    split.add_argument("--overwrite", action="store_true", help="replace shards of something else")
    split.set_defaults(verb=_split)

    verify = verbs.add_parser("verify", help="read all shards and compare them with their manifest")
    verify.add_argument("out", type=Path, metavar="OUT", help="what umiak data split wrote")
    verify.set_defaults(verb=_verify)
    return parser


def _fetch(options: argparse.Namespace) -> int:
    from umiak.data.fetch import fetch

    print(fetch(options.name, options.directory))
    return 0


def _split(options: argparse.Namespace) -> int:
    from umiak.data import remote, split

    how = (options.shards, options.layout, options.whole, options.header)
    if remote.is_remote(options.source):
        with _progress() as show:
            _table(remote.split(options.source, options.out, *how, options.overwrite, show))
        return 0
    plan = split.plan(Path(options.source), *how)
    print(f"splitting {', '.join(plan.split)}; whole in every shard: {', '.join(plan.whole) or 'nothing'}")
    with _progress() as show:
        manifest = split.split(plan, options.out, options.overwrite, show)
    _table(manifest)
    return 0


def _verify(options: argparse.Namespace) -> int:
    from umiak.data import shards

    _table(shards.verify(options.out))
    return 0


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, nothing elsewhere."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("splitting")
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _table(manifest: Manifest) -> None:
    for index in range(manifest.shards):
        size = sum(entry.pieces[index if entry.split else 0].bytes for entry in manifest.files)
        print(f"shard {index}: {manifest.of_shard(index):,} samples, {size:,} bytes")
    print(f"all {manifest.samples:,} samples are in {manifest.shards} shards")
