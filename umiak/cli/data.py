"""`umiak data fetch | describe | split | verify | submit`: get data sets, look at them, cut them into shards."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from umiak.cli.arguments import Parser
from umiak.cli.bar import bar
from umiak.cli.kube import add_options, connect, with_extra
from umiak.errors import InputError, RetryError

if TYPE_CHECKING:
    from umiak.data.shards import Manifest

LAYOUTS = ("2017", "2016")
JOB_FILE = "job.yaml"


def run(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    code: int = options.verb(options)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="umiak data", description="Fetch data sets and split them into shards, one per trainer.")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    fetch = verbs.add_parser("fetch", help="fetch a data set unless it is already there")
    fetch.add_argument("name", metavar="NAME", help="movielens, reviews, or ctr: made-up click logs as Parquet")
    fetch.add_argument("--directory", type=Path, metavar="DIR", help="default $UMIAK_DATA, or ./data")
    fetch.set_defaults(verb=_fetch)

    describe = verbs.add_parser(
        "describe",
        help="show what files hold, and how trainers would share them",
        description="Reads all rows once: Parquet, CSV, TSV or JSON lines, here or in S3, as umiak.data.stream does.",
    )
    describe.add_argument(
        "paths", nargs="+", metavar="PATTERN", help='files, or a pattern in quotes: "s3://clicks/**/*.parquet"'
    )
    describe.add_argument(
        "--shards", type=int, default=3, metavar="N", help="number of shards to deal them to (default 3)"
    )
    describe.add_argument("--no-header", action="store_true", help="the first line of .csv and .tsv names no columns")
    describe.add_argument("--output", type=Path, metavar="PNG", help="draw how skewed the columns are")
    describe.set_defaults(verb=_describe)

    split = verbs.add_parser(
        "split",
        help="split a file or a directory into shards",
        description="Deals samples out to the shards in turn. A sample is a line of a .txt, .csv, .tsv or .jsonl file "
        "(also .gz), or a row of a Parquet file. If a directory has a train.list, the files it names are split; otherwise all "
        "files of these kinds are. Every shard gets all other files whole. If interrupted, the same command resumes.",
    )
    split.add_argument("source", metavar="SOURCE", help="a file or a directory, or http(s):// or s3://")
    split.add_argument("out", type=Path, metavar="OUT", help="where the shards and their manifest go")
    _how(split)
    split.set_defaults(verb=_split)

    verify = verbs.add_parser("verify", help="read all shards and compare them with their manifest")
    verify.add_argument("out", type=Path, metavar="OUT", help="what umiak data split wrote")
    verify.set_defaults(verb=_verify)

    submit = verbs.add_parser(
        "submit",
        help="split data on the cluster, onto a volume",
        description="Runs umiak data split as a Job with the volume mounted. If interrupted, the same command watches it again; "
        "a lost pod is replaced and resumes where it stopped.",
    )
    submit.add_argument("source", metavar="SOURCE", help="http(s)://, s3://, or a path on the volume")
    submit.add_argument("out", metavar="OUT", help="a directory on the volume")
    _how(submit)
    submit.add_argument(
        "--claim", help=f"claim of the volume (default: that of {JOB_FILE}, else the cluster's, else efsvol)"
    )
    submit.add_argument("--image", help=f"runtime image (default: that of {JOB_FILE}, else the cluster's)")
    submit.add_argument(
        "--service-account",
        metavar="NAME",
        help="service account of the pod (default: the cluster's for s3://, else none)",
    )
    submit.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="an environment variable of the pod"
    )
    add_options(submit)
    submit.set_defaults(verb=_submit)
    return parser


def _how(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shards", type=int, required=True, metavar="N", help="number of shards, one per trainer")
    parser.add_argument(
        "--layout", choices=LAYOUTS, default="2017", help="OUT/i/data (2017, default) or OUT/data/i (2016)"
    )
    parser.add_argument(
        "--whole", action="append", default=[], metavar="PATTERN", help="files that every shard gets whole"
    )
    parser.add_argument("--header", action="store_true", help="the first line of .csv and .tsv names columns")
    parser.add_argument("--parquet", action="store_true", help="write .csv, .tsv and .jsonl files as Parquet")
    parser.add_argument("--overwrite", action="store_true", help="replace shards of other data")


def _fetch(options: argparse.Namespace) -> int:
    from umiak.data.fetch import fetch

    print(fetch(options.name, options.directory))
    return 0


def _describe(options: argparse.Namespace) -> int:
    from umiak.cli import data_text
    from umiak.data.formats import kind
    from umiak.data.streaming import chunks, describing, places

    kinds = {kind(path.removesuffix(".zst")) for path in options.paths}
    if kinds == {".txt"} or len(kinds) > 1:
        raise InputError("umiak data describe takes files of one kind, and of one that has columns: not .txt")
    if options.shards < 1:
        raise InputError(f"--shards {options.shards}: write at least 1")
    index = chunks.indexed(kinds.pop(), not options.no_header, places.found(options.paths))
    with bar("reading") as show:
        described = describing.describe(index, options.shards, show)
    data_text.show(described)
    if options.output is not None:
        data_text.draw(described, options.output)
        print(options.output)
    return 0


def _split(options: argparse.Namespace) -> int:
    from umiak.data import remote, split

    how = (options.shards, options.layout, options.whole, options.header)
    if remote.is_remote(options.source):
        with bar("splitting") as show:
            _table(remote.split(options.source, options.out, *how, options.overwrite, show, options.parquet))
        return 0
    plan = split.plan(Path(options.source), *how, parquet=options.parquet)
    print(f"splitting {', '.join(plan.split)}; whole in every shard: {', '.join(plan.whole) or 'nothing'}")
    with bar("splitting") as show:
        manifest = split.split(plan, options.out, options.overwrite, show)
    _table(manifest)
    return 0


def _submit(options: argparse.Namespace) -> int:
    return with_extra("data submit", lambda: _submitted(options))


def _submitted(options: argparse.Namespace) -> int:
    from umiak.jobs import data
    from umiak.spec import yamlfile
    from umiak.spec.job import CLAIM, JobSpec

    spec = yamlfile.load(Path(JOB_FILE), JobSpec) if Path(JOB_FILE).exists() else None
    api, namespace = connect(options, spec.namespace if spec else None)
    made = api.access.made
    image = options.image or (spec.image if spec else made.get("image"))
    if image is None:
        raise InputError(f"umiak data submit needs an --image to run, or a {JOB_FILE} here that names one")
    split = data.Split(
        options.source,
        options.out,
        options.shards,
        options.claim or (spec.claim if spec else made.get("claim", CLAIM)),
        image,
        options.layout,
        tuple(options.whole),
        options.header,
        options.overwrite,
        options.parquet,
        dict(_pair(text) for text in options.env),
        options.service_account or (made.get("service_account") if options.source.startswith("s3://") else None),
    )
    with api:
        new = data.submit(api, namespace, split)
        print(f"job {split.name} {'submitted' if new else 'is at work already'}", flush=True)
        try:
            for line in data.follow(api, namespace, split.name, lambda text: print(text, flush=True))[
                -split.shards - 1 :
            ]:
                print(line)
        except KeyboardInterrupt:
            raise RetryError("the job continues in the cluster; run the same command to watch it again") from None
        data.delete(api, namespace, split.name)
    return 0


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--env {text}: write NAME=VALUE")
    return name, value


def _verify(options: argparse.Namespace) -> int:
    from umiak.data import shards

    _table(shards.verify(options.out))
    return 0


def _table(manifest: Manifest) -> None:
    for index in range(manifest.shards):
        size = sum(entry.pieces[index if entry.split else 0].bytes for entry in manifest.files)
        print(f"shard {index}: {manifest.of_shard(index):,} samples, {size:,} bytes")
    print(f"all {manifest.samples:,} samples are in {manifest.shards} shards")
