"""`umiak job init | submit | ls | status | wait | logs | page | cancel | delete`: training on Kubernetes."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from umiak import __version__
from umiak.cli import job_page
from umiak.cli.arguments import Parser
from umiak.cli.kube import add_options, connect, with_extra
from umiak.errors import InputError, RetryError

if TYPE_CHECKING:
    from umiak.kube.api import Api
    from umiak.spec.job import JobSpec

FILE = "job.yaml"


def run(argv: list[str]) -> int:
    # `--dry-run` alone takes no word after it; argparse would take the file for its value.
    words = ["--dry-run=client" if word == "--dry-run" else word for word in argv]
    options = _parser().parse_args(words)
    return with_extra("job", lambda: options.verb(options))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="umiak job", description="Train on Kubernetes: one pod per worker.")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    init = verbs.add_parser("init", help=f"write a commented {FILE}")
    init.add_argument("--name", help="name of the job (default: the directory's name)")
    init.add_argument("--image", help=f"runtime image (default: the cluster's, else umiak/runtime:{__version__})")
    init.add_argument("--workers", type=int, metavar="N", help="default 3")
    init.add_argument("--overwrite", action="store_true", help="replace an existing file")
    init.add_argument("file", nargs="?", type=Path, default=Path(FILE), metavar="FILE", help=f"default ./{FILE}")
    add_options(init)
    init.set_defaults(verb=_init)

    submit = verbs.add_parser("submit", help="create and start the job, or resume a cancelled one")
    submit.add_argument("file", nargs="?", type=Path, default=Path(FILE), metavar="FILE", help=f"default ./{FILE}")
    submit.add_argument("--watch", action="store_true", help="show the workers until the job ends")
    submit.add_argument(
        "--dry-run", choices=("client", "server"), help="print what would be sent; server: let the API server check it"
    )
    add_options(submit)
    submit.set_defaults(verb=_submit)

    listing = verbs.add_parser("ls", help="all jobs")
    listing.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
    add_options(listing)
    listing.set_defaults(verb=_ls)

    status = _named(verbs, "status", "show what a job is doing, and what went wrong first", _status)
    status.add_argument("--json", action="store_true", help="for programs")
    status.add_argument("--watch", action="store_true", help="until the end")

    wait = _named(verbs, "wait", "wait until the job ends; exits with the training's exit code", _wait)
    wait.add_argument(
        "--timeout",
        type=_seconds,
        metavar="TIME",
        help="how long to wait, like 90s, 10m or 2h (default: until it ends)",
    )

    logs = _named(verbs, "logs", "show the log of a worker: the first that failed, else worker 0", _logs)
    logs.add_argument("-f", "--follow", action="store_true", help="follow the log until the job ends")
    logs.add_argument("--worker", type=int, metavar="N", help="whose")
    logs.add_argument("--server", action="store_true", help="show the parameter server's log instead of the trainer's")
    logs.add_argument("--since", type=_seconds, metavar="TIME", help="show only the last 90s, 10m or 2h")

    job_page.register(verbs)

    _named(verbs, "cancel", "write a checkpoint and stop; submit resumes from it", _cancel)

    legacy = verbs.add_parser("legacy", help="print what the tutorials' own YAML of 2016 and 2017 needs in the cluster")
    legacy.add_argument(
        "--image-names", action="store_true", help="list the images that YAML names, and what builds them"
    )
    legacy.add_argument(
        "-n", "--namespace", default="default", metavar="NAME", help="namespace that YAML runs in (default: default)"
    )
    legacy.set_defaults(verb=_legacy)

    delete = _named(verbs, "delete", "remove everything that submit created; the output stays", _delete)
    delete.add_argument("--output", action="store_true", help="delete the output on the volume too")
    return parser


def _named(verbs: Any, verb: str, about: str, act: Any) -> argparse.ArgumentParser:
    """A verb about one job that exists."""
    parser: argparse.ArgumentParser = verbs.add_parser(verb, help=about)
    parser.add_argument("name", nargs="?", metavar="JOB", help=f"name of a job, or a job file (default ./{FILE})")
    add_options(parser)
    parser.set_defaults(verb=act)
    return parser


def _seconds(text: str) -> int:
    if not re.fullmatch(r"\d{1,6}[smhd]", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time like 90s, 10m or 2h")
    return int(text[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[text[-1]]


def _load(path: Path) -> JobSpec:
    from umiak.spec import yamlfile
    from umiak.spec.job import JobSpec

    if not path.exists():
        raise InputError(f"{path}: no such file; write one with `umiak job init`")
    return yamlfile.load(path, JobSpec)


def _job(options: argparse.Namespace) -> tuple[Api, str, str]:
    """The API server, the namespace and the name of the job that is meant."""
    given = options.name
    if given is not None and not given.endswith((".yaml", ".yml")):
        return (*connect(options), given)
    path = Path(given or FILE)
    if given is None and not path.exists():
        raise InputError(f"which job? Name it, or run this where its {FILE} is; `umiak job ls` lists all")
    spec = _load(path)
    return (*connect(options, spec.namespace), spec.name)


def _init(options: argparse.Namespace) -> int:
    from umiak.spec import yamlfile
    from umiak.spec.job import CLAIM, JobSpec, Volume

    here = re.sub(r"[^a-z0-9]+", "-", options.file.resolve().parent.name.lower()).strip("-")
    name = options.name or (here if re.match("[a-z]", here) else f"job-{here}".rstrip("-"))
    given = {"workers": options.workers} if options.workers is not None else {}
    made = _cluster(options)
    image = options.image or made.get("image") or f"umiak/runtime:{__version__}"
    spec = JobSpec(name, image, options.namespace, volume=Volume(made.get("claim", CLAIM)), **given)
    for field, complaint in yamlfile.complaints(spec):
        raise InputError(f"--{field}: {complaint}")
    head = "# A training job on Kubernetes. `umiak job submit --dry-run` shows what it becomes, `umiak job submit` runs it.\n\n"
    try:
        with options.file.open("w" if options.overwrite else "x", encoding="utf-8") as file:
            file.write(head + yamlfile.dump(spec))
    except FileExistsError:
        raise InputError(f"{options.file} exists; edit it, or replace it with --overwrite") from None
    except OSError as error:
        raise InputError(f"cannot write {options.file}: {error.strerror}; choose another FILE") from error
    print(f"{options.file}: job {spec.name}; next: umiak job submit {options.file}")
    return 0


def _cluster(options: argparse.Namespace) -> Mapping[str, str]:
    """What the kubeconfig says of a cluster that `umiak cluster up` made; nothing without a kubeconfig."""
    try:
        return connect(options)[0].access.made
    except InputError:
        if options.kubeconfig or options.context:
            raise
        return {}


def _submit(options: argparse.Namespace) -> int:
    from umiak.cli import image
    from umiak.cli import job_text as text
    from umiak.jobs import plan, submit
    from umiak.jobs.manifests import placeholders

    spec = _load(options.file)
    if options.dry_run and spec.requirements:
        print(f"umiak: a dry run adds no packages of {spec.requirements} to the image", file=sys.stderr)
    if options.dry_run == "client":
        print(plan.make(spec, options.file.parent, _namespace(options, spec.namespace)).text(), end="")
        return 0
    api, namespace = connect(options, spec.namespace)
    if spec.reads_s3 and spec.service_account is None:
        spec = replace(spec, service_account=api.access.made.get("service_account"))
    with api:
        lock = None
        if options.dry_run is None and (spec.requirements or spec.image == api.access.made.get("image")):
            spec, lock = image.ready(spec, options.file.parent, api.access.made)
        made = plan.make(spec, options.file.parent, namespace, lock)
        found = submit.look(api, made, datetime.now(UTC))
        for line in text.plan(made, api.access.context):
            print(line, flush=True)
        for warning in found.warnings:
            print(f"umiak: warning: {warning}", file=sys.stderr, flush=True)
        if options.dry_run == "server":
            submit.check(api, made, placeholders(spec.workers))
            print("the API server accepts all of it; nothing was created")
            return 0
        submit.act(api, made, found.action, plan.new_keys(spec.workers))
        print({"resume": "resumed from its last checkpoint"}.get(found.action, "submitted"), flush=True)
        if options.watch:
            return _show(api, namespace, spec.name)
    where = f"{spec.name} -n {namespace}"
    print(f"next: umiak job status {where} | umiak job logs -f {where}")
    return 0


def _namespace(options: argparse.Namespace, written: str | None) -> str:
    """For a dry run, which needs no cluster: without any kubeconfig it is `default`."""
    try:
        return connect(options, written)[1]
    except InputError:
        if options.kubeconfig or options.context:
            raise
        return options.namespace or written or "default"


def _show(api: Api, namespace: str, name: str) -> int:
    from umiak.cli import job_display as display
    from umiak.cli.job_prices import Prices

    return display.watch(api, namespace, name, Prices())


def _ls(options: argparse.Namespace) -> int:
    from umiak.cli import job_text as text
    from umiak.jobs import listing

    api, namespace = connect(options)
    with api:
        jobs = listing.listed(api, None if options.all_namespaces else namespace)
    for line in text.listing(jobs, "all namespaces" if options.all_namespaces else f"namespace {namespace}"):
        print(line)
    return 0


def _status(options: argparse.Namespace) -> int:
    from umiak.cli import job_text as text
    from umiak.jobs import status

    api, namespace, name = _job(options)
    with api:
        if options.watch:
            return _show(api, namespace, name)
        seen = status.gather(api, namespace, name)
    if options.json:
        print(seen.as_json())
    else:
        for line in text.status(seen, datetime.now(UTC)):
            print(line)
    return 0


def _wait(options: argparse.Namespace) -> int:
    from umiak.cli import job_text as text
    from umiak.jobs import status, watch

    api, namespace, name = _job(options)
    limit = time.monotonic() + options.timeout if options.timeout is not None else None
    with api:
        for seen in watch.states(api, namespace, name):
            if limit is not None and time.monotonic() > limit and getattr(seen, "state", "") not in status.FINAL:
                raise RetryError(f"the job {name!r} has not ended within the time given; it continues")
    assert not isinstance(seen, watch.Away)
    for line in text.end(seen):
        print(line, file=sys.stderr if seen.exit_code else sys.stdout)
    return seen.exit_code


def _logs(options: argparse.Namespace) -> int:
    from umiak.cli import job_text as text
    from umiak.jobs import logs, status

    api, namespace, name = _job(options)
    with api:
        seen = status.gather(api, namespace, name)
        worker = logs.chosen(seen, options.worker)
        if seen.first:
            for line in text.failures(seen, with_log=False):
                print(line, file=sys.stderr)
        if options.worker is None and len(seen.workers) > 1:
            print(f"worker {worker} of {len(seen.workers)}; others with --worker N", file=sys.stderr, flush=True)
        lines = logs.lines(
            api, namespace, name, worker, server=options.server, since=options.since, follow=options.follow
        )
        silent = True
        for line in lines:
            print(line, flush=options.follow)
            silent = False
    if silent:
        where = f"node_{worker}/ of {seen.output} on claim {seen.claim}"
        print(
            f"nothing to show: no pod of worker {worker} has said anything; all its logs are in {where}",
            file=sys.stderr,
        )
    return 0


def _cancel(options: argparse.Namespace) -> int:
    from umiak.jobs import control

    api, namespace, name = _job(options)
    with api:
        control.cancel(api, namespace, name, lambda text: print(text, flush=True))
    print(f"{name}: cancelled; `umiak job submit` of the same job file resumes from its last checkpoint")
    return 0


def _delete(options: argparse.Namespace) -> int:
    from umiak.jobs import control

    api, namespace, name = _job(options)
    with api:
        control.delete(api, namespace, name, options.output, lambda text: print(text, flush=True))
    return 0


def _legacy(options: argparse.Namespace) -> int:
    from umiak.paddle_v1.pods import legacy

    print(legacy.images() if options.image_names else legacy.text(options.namespace).rstrip())
    return 0
