"""`umiak data fetch | split | verify | submit`: get data sets, and cut them into shards, here or on a cluster."""

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
        "every shard. Interrupted, the same command resumes.",
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
        help="split on the cluster, onto a volume",
        description="Runs umiak data split as a Job with the volume mounted. Interrupted, the same command comes back to it; "
        "a pod that is lost is replaced and resumes where it stopped.",
    )
    submit.add_argument("source", metavar="SOURCE", help="http(s)://, s3://, or a path on the volume")
    submit.add_argument("out", metavar="OUT", help="a directory on the volume")
    _how(submit)
    submit.add_argument("--claim", help=f"the volume's claim (default: of {JOB_FILE}, else the cluster's, else efsvol)")
    submit.add_argument("--image", help=f"the runtime image (default: of {JOB_FILE}, else the cluster's)")
    submit.add_argument(
        "--service-account",
        metavar="NAME",
        help="whose rights the pod has (default: for s3:// the cluster's, else none)",
    )
    submit.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="environment of the pod")
    add_options(submit)
    submit.set_defaults(verb=_submit)
    return parser


def _how(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shards", type=int, required=True, metavar="N", help="how many, one per trainer")
    parser.add_argument(
        "--layout", choices=LAYOUTS, default="2017", help="OUT/i/data (2017, default) or OUT/data/i (2016)"
    )
    parser.add_argument(
        "--whole", action="append", default=[], metavar="PATTERN", help="files that all shards get whole"
    )
    parser.add_argument("--header", action="store_true", help="the first line of .csv and .tsv names columns")
    parser.add_argument("--overwrite", action="store_true", help="replace shards of something else")


def _fetch(options: argparse.Namespace) -> int:
    from umiak.data.fetch import fetch

    print(fetch(options.name, options.directory))
    return 0


def _split(options: argparse.Namespace) -> int:
    from umiak.data import remote, split

    how = (options.shards, options.layout, options.whole, options.header)
    if remote.is_remote(options.source):
        with bar("splitting") as show:
            _table(remote.split(options.source, options.out, *how, options.overwrite, show))
        return 0
    plan = split.plan(Path(options.source), *how)
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
            raise RetryError("the job continues in the cluster; the same command comes back to it") from None
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
