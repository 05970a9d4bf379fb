"""`umiak output ls | pull`: what a job wrote on its volume."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from umiak.cli.arguments import Parser
from umiak.cli.bar import bar
from umiak.cli.kube import add_options, connect, with_extra
from umiak.errors import InputError

if TYPE_CHECKING:
    from umiak.jobs.output import Place
    from umiak.jobs.volume_pod import VolumePod


def run(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    return with_extra("output", lambda: options.verb(options))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="umiak output",
        description="Snapshots, logs and curves of a job, through a short-lived pod that reads its volume.",
    )
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    ls = verbs.add_parser("ls", help="list them")
    ls.add_argument("job", metavar="JOB", help="name of the job")
    _where(ls)
    ls.set_defaults(verb=_ls)

    pull = verbs.add_parser(
        "pull",
        help="download them; if interrupted, the same command resumes",
        usage="umiak output pull JOB [PASS] DIR [flags]",
    )
    pull.add_argument("job", metavar="JOB", help="name of the job")
    pull.add_argument("words", nargs="+", metavar="[PASS] DIR", help="only this pass; the directory to write to")
    _where(pull)
    pull.set_defaults(verb=_pull)
    return parser


def _where(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--file", type=Path, metavar="FILE", help="job file of a job that is gone from the cluster")
    add_options(parser)


@contextmanager
def _volume(options: argparse.Namespace) -> Iterator[tuple[VolumePod, Place]]:
    from umiak.jobs import output, volume_pod
    from umiak.spec import yamlfile
    from umiak.spec.job import JobSpec

    spec = yamlfile.load(options.file, JobSpec) if options.file else None
    if spec is not None and spec.name != options.job:
        raise InputError(f"{options.file} is the file of job {spec.name!r}, not of {options.job!r}")
    api, namespace = connect(options, spec.namespace if spec else None)
    with api:
        if spec is not None:
            place = output.Place(spec.claim, spec.output, spec.image)
        else:
            place = output.of_job(api, namespace, options.job)
        with volume_pod.started(api, namespace, place.claim, place.image) as pod:
            yield pod, place


def _ls(options: argparse.Namespace) -> int:
    from umiak.jobs import output

    with _volume(options) as (pod, place):
        files = output.listing(pod, place.directory)
    for group in output.groups(files):
        when = datetime.fromtimestamp(group.time).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        print(f"{group.name:<24} {group.count:>5} files {group.bytes:>16,} bytes  {when}")
    return 0


def _pull(options: argparse.Namespace) -> int:
    from umiak.cli import job_cost
    from umiak.jobs import output

    *passes, directory = options.words
    if len(passes) > 1:
        raise InputError("umiak output pull: write JOB, at most one PASS, and DIR; see umiak output pull --help")
    wanted = _pass(passes[0]) if passes else None
    with _volume(options) as (pod, place):
        files = output.chosen(output.listing(pod, place.directory), wanted)
        with bar("pulling") as show:
            travelled = output.pull(pod, place.directory, files, Path(directory), show)
        job_cost.write_price(pod.api, pod.namespace, options.job, Path(directory))
    total = sum(file.size for file in files)
    print(f"{directory}: {len(files)} files, {total:,} bytes, checksums match; {travelled:,} bytes transferred")
    return 0


def _pass(text: str) -> int:
    number = text.removeprefix("pass-")
    if not number.isdigit():
        raise InputError(f"{text!r} is not a pass: write its number, like 3 or pass-00003")
    return int(number)
