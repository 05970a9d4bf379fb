"""`umiak cluster init | render | validate | cost`: an AWS cluster before anything is created. The verbs that create, watch and
remove one are in `cluster_life`."""

from __future__ import annotations

import argparse
import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from umiak.cli import cluster_life
from umiak.cli.arguments import Parser
from umiak.errors import InputError
from umiak.extras import needed

FILE = "cluster.yaml"


def run(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    with needed("cluster", "umiak cluster needs"):
        code: int = options.verb(options)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="umiak cluster", description="A cluster on AWS: plan it, bring it up, take it down.")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    init = verbs.add_parser("init", help=f"write a commented {FILE}")
    init.add_argument("--name", help="name of the cluster, its stack and its tags")
    init.add_argument("--region", help="like us-west-2")
    init.add_argument("--zone", help="availability zone that all nodes run in (default: the region's first)")
    init.add_argument("--nodes", type=int, metavar="N", help="number of nodes (default 3)")
    init.add_argument("--node-type", metavar="TYPE,…", help="instance types, preferred first (default m6i.large)")
    init.add_argument("--spot", action="store_true", help="use spot instances: cheaper, but AWS may take them back")
    init.add_argument("--key-name", help="EC2 key pair, for SSH from inside the VPC")
    init.add_argument("--kms-key-arn", metavar="ARN", help="use this KMS key instead of creating one")
    _api_access(init)
    init.add_argument("--api-cidr", metavar="CIDR,…", help="the same as --api-access CIDR,…")
    init.add_argument(
        "--from-env", action="store_true", help="read the variables of the kube-up tutorials; flags take precedence"
    )
    init.add_argument("--overwrite", action="store_true", help="replace an existing file")
    _file(init)
    init.set_defaults(verb=_init)

    render = verbs.add_parser("render", help="write the template, the IAM policies, the manifests and a summary")
    render.add_argument("--out", type=Path, default=Path("rendered"), metavar="DIR", help="default ./rendered")
    _file(render)
    render.set_defaults(verb=_render)

    validate = verbs.add_parser("validate", help="check for everything that could stop it")
    validate.add_argument(
        "--offline", action="store_true", help="check the file without asking AWS; needs no credentials"
    )
    _file(validate)
    validate.set_defaults(verb=_validate)

    cost = verbs.add_parser("cost", help="show what it costs per hour and per month, line by line")
    cost.add_argument("--refresh", action="store_true", help="fetch all prices again")
    _file(cost)
    cost.set_defaults(verb=_cost)

    up = verbs.add_parser(
        "up", help="create the cluster, or update it to match the file; resumes after an interruption"
    )
    up.add_argument("--yes", action="store_true", help="do not ask")
    _api_access(up)
    up.add_argument("--force", action="store_true", help="continue despite the errors that the checks found")
    up.add_argument(
        "--reuse",
        action="store_true",
        help=f"reuse what an earlier cluster of this name kept, and write it into {FILE}",
    )
    _kubeconfig(up)
    _file(up)
    up.set_defaults(verb=cluster_life.up)

    status = verbs.add_parser("status", help="show the state of the cluster at a glance")
    status.add_argument("--watch", action="store_true", help="keep updating until nothing is in progress")
    status.add_argument("--json", action="store_true", help="for programs")
    _file(status)
    status.set_defaults(verb=cluster_life.status)

    patch = verbs.add_parser("patch", help="update the nodes' image and the add-ons within the same Kubernetes version")
    patch.add_argument("--yes", action="store_true", help="do not ask")
    _file(patch)
    patch.set_defaults(verb=cluster_life.patch)

    diff = verbs.add_parser("diff", help="show what `up` would change")
    _file(diff)
    diff.set_defaults(verb=cluster_life.diff)

    kubeconfig = verbs.add_parser("kubeconfig", help="write the kubeconfig for kubectl and `umiak job`")
    _kubeconfig(kubeconfig)
    _file(kubeconfig)
    kubeconfig.set_defaults(verb=cluster_life.kubeconfig)

    connect = verbs.add_parser(
        "connect", help="forward a local port to a private API server, until Ctrl-C or while COMMAND runs"
    )
    connect.add_argument("--port", type=int, metavar="N", help="local port (default: 16443, or any free one)")
    _kubeconfig(connect)
    _file(connect)
    connect.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="command to run while connected"
    )
    connect.set_defaults(verb=cluster_life.connect)

    token = verbs.add_parser("token", help="print a token that is valid for 15 minutes; the kubeconfig runs this")
    token.add_argument("--name", required=True, help="of the cluster")
    token.add_argument("--region", required=True, help="like us-west-2")
    token.set_defaults(verb=cluster_life.token)

    report = verbs.add_parser("report", help="collect what a maintainer needs to see, without secrets")
    report.add_argument("--out", type=Path, metavar="FILE", help="file to write (default: print it)")
    _kubeconfig(report)
    _file(report)
    report.set_defaults(verb=cluster_life.report)

    destroy = verbs.add_parser("destroy", help="remove the cluster and check that nothing is left")
    destroy.add_argument("--yes", action="store_true", help="do not ask")
    destroy.add_argument(
        "--earlier",
        action="store_true",
        help="also remove what earlier clusters of this name kept in this region, if the file says delete",
    )
    _kubeconfig(destroy)
    _file(destroy)
    destroy.set_defaults(verb=cluster_life.destroy)
    return parser


def _api_access(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--api-access",
        metavar="mine|private|CIDR,…",
        help="who can reach the API server from outside: this machine, only `umiak cluster connect`, or these addresses",
    )


def _kubeconfig(parser: argparse.ArgumentParser) -> None:
    path = Path("kubeconfig")
    parser.add_argument("--kubeconfig", type=Path, default=path, metavar="FILE", help=f"default ./{path}")


def _file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--file", type=Path, default=Path(FILE), metavar="FILE", help=f"default ./{FILE}")


def _init(options: argparse.Namespace) -> int:
    from umiak.cluster import initial

    if options.api_access and options.api_cidr:
        raise InputError("--api-access and --api-cidr mean the same: give only one of them")
    notes: list[str] = []
    given: dict[str, initial.Given] = {}
    if options.from_env:
        given, notes = initial.from_environment(os.environ)
    flags = {
        "name": options.name,
        "region": options.region,
        "zone": options.zone,
        "nodes": options.nodes,
        "types": _list(options.node_type),
        "spot": options.spot or None,
        "key_name": options.key_name,
        "kms_key_arn": options.kms_key_arn,
        "api_cidrs": _list(options.api_cidr),
    }
    names = {"types": "--node-type", "api_cidrs": "--api-cidr"}
    if options.api_cidr is None:
        # Before anything is asked, what is wrong in the rest is said.
        initial.build(_given(given, flags, names))
        flags |= _reach(options.api_access, cluster_life.talk(False), notes)
        names["api_cidrs"] = "--api-access"
    spec = initial.build(_given(given, flags, names))
    try:
        with options.file.open("w" if options.overwrite else "x", encoding="utf-8") as file:
            file.write(initial.text(spec))
    except FileExistsError:
        raise InputError(f"{options.file} exists; edit it, or replace it with --overwrite") from None
    except OSError as error:
        raise InputError(f"cannot write {options.file}: {error.strerror}; choose another with --file") from error
    for note in notes:
        print(note)
    print(f"{options.file}: cluster {spec.name} in {spec.zones[0]}; next: umiak cluster validate")
    return 0


def _given(given: dict[str, Any], flags: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Flags over variables, each with the place where the user wrote it."""
    from umiak.cluster import initial

    written = {key: value for key, value in flags.items() if value is not None}
    return given | {
        key: initial.Given(value, names.get(key, "--" + key.replace("_", "-"))) for key, value in written.items()
    }


def _reach(access: str | None, talk: Any, notes: list[str]) -> dict[str, Any]:
    from umiak import address
    from umiak.cluster import reach

    text = access or reach.asked(talk, address.service())
    if text is None:
        notes.append(
            "the API server will answer only inside the VPC: choose with --api-access mine, private or CIDR,… "
            "(here, or later with `umiak cluster up`)"
        )
        return {}
    chosen = reach.choice(text, address.mine)
    if text == reach.MINE:
        notes.append(f"the API server will answer to {chosen.cidrs[0]}: this machine, as {address.service()} sees it")
    return {"api_cidrs": chosen.cidrs, "bastion": chosen.bastion}


def _list(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(part.strip() for part in text.split(",") if part.strip())


def _render(options: argparse.Namespace) -> int:
    from umiak.cluster import render

    for path in render.write(render.files(cluster_life.load(options.file)), options.out):
        print(path)
    return 0


def _validate(options: argparse.Namespace) -> int:
    from umiak.cluster import checks
    from umiak.cluster.aws import Aws
    from umiak.cluster.display import tables

    spec = cluster_life.load(options.file)
    findings = checks.run(spec, None if options.offline else Aws(spec.region), date.today())
    print(tables.findings(findings))
    return InputError.exit_code if any(finding.level == "error" for finding in findings) else 0


def _cost(options: argparse.Namespace) -> int:
    from umiak.cluster import cost
    from umiak.cluster.aws import Aws
    from umiak.cluster.display import tables
    from umiak.cluster.prices import PriceBook

    spec = cluster_life.load(options.file)
    aws, now = Aws(spec.region), datetime.now(UTC)
    report = cost.report(spec, aws, PriceBook(aws, options.refresh, now))
    print(tables.bill(spec, report, now))
    return 0
