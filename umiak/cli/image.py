"""`umiak image push`: the runtime image, made and pushed without Docker."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from umiak.cli.arguments import Parser
from umiak.cli.bar import bar
from umiak.errors import InputError, UmiakError
from umiak.extras import needed

if TYPE_CHECKING:
    from umiak.image.making import Access, Wanted
    from umiak.image.push import Pushed
    from umiak.spec.job import JobSpec

JOB_FILE, CLUSTER_FILE = Path("job.yaml"), Path("cluster.yaml")


def run(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    with needed("image", "umiak image needs"):
        code: int = options.verb(options)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="umiak image", description="The image that workers on Kubernetes run in.")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    push = verbs.add_parser(
        "push",
        help="build the runtime image and push it to a registry; needs no Docker",
        description="Puts Python packages and umiak on top of a base image and pushes the result. Only the layers that "
        "the registry lacks are uploaded. If interrupted, the same command continues. Logins are Docker's, for ECR AWS's.",
    )
    push.add_argument(
        "image", nargs="?", metavar="IMAGE", help=f"name of the image (default: that of {JOB_FILE}, else the cluster's)"
    )
    push.add_argument(
        "--base", metavar="IMAGE", help="base image: Linux with Python 3.11 or newer, best named by digest (…@sha256:…)"
    )
    push.add_argument(
        "--platform", metavar="PLATFORM", help="linux/amd64 or linux/arm64 (default: the cluster's nodes)"
    )
    push.add_argument(
        "--torch",
        metavar="SOURCE",
        help="package index with CPU builds (default: PyTorch's); lock: the locked build, with CUDA",
    )
    push.add_argument("--torch-sha256", default="", metavar="HASH", help="SHA-256 of torch's file on that index")
    push.add_argument("--plain-http", action="store_true", help="the registries do not use TLS")
    push.set_defaults(verb=_push)
    return parser


def _push(options: argparse.Namespace) -> int:
    from umiak.image import making, reference
    from umiak.image.packages import Torch

    made = cluster()
    name = options.image or _of_job() or made.get("image")
    if name is None:
        raise InputError(f"name the image, or run this where {JOB_FILE} or the kubeconfig of `umiak cluster up` is")
    torch = Torch(options.torch, options.torch_sha256) if options.torch else Torch(sha256=options.torch_sha256)
    platform = options.platform or made.get("platform") or "linux/amd64"
    wanted = making.Wanted(
        reference.parse(name),
        reference.parse(options.base or making.default_base()),
        making.architecture(platform),
        torch,
    )
    push(wanted, making.Access(ecr, options.plain_http))
    return 0


def push(wanted: Wanted, access: Access) -> Pushed:
    """Make and push, with bars and lines, and say what it was."""
    from umiak.image import making

    with ExitStack() as bars:
        pushed = making.make(wanted, access, _meter(bars), lambda text: print(text, flush=True))
    print(f"pushed {wanted.image} as {pushed.digest}: {_size(pushed.size)}, of which {_size(pushed.sent)} was uploaded")
    return pushed


def ready(spec: JobSpec, directory: Path, made: Mapping[str, str]) -> tuple[JobSpec, str | None]:
    """A job whose image is in its registry and has the packages that it asks for, and the lock of these packages."""
    from umiak.image import making, reference

    if spec.image == made.get("image") and not offer(made):
        raise InputError(f"{spec.image} is not in its registry yet: push it with `umiak image push`, then submit again")
    if spec.requirements is None:
        return spec, None
    with ExitStack() as bars:
        meter = _meter(bars)("pushing the requirements")
        image, file = reference.parse(spec.image), directory / spec.requirements
        found = making.extend(image, file, making.Access(ecr), meter, lambda text: print(text, flush=True))
    return replace(spec, image=str(found.image)), found.lock


def offer(made: Mapping[str, str]) -> bool:
    """Push the image of a cluster that `umiak cluster up` made, if nobody has yet; whether it is there now."""
    from umiak.image import making, reference

    if "image" not in made:
        return True
    image, access = reference.parse(made["image"]), making.Access(ecr)
    try:
        if not making.is_missing(image, access):
            return True
    except UmiakError:
        # Not everybody who may submit may ask the registry; the nodes will say if it is not there.
        return True
    question = f"{image} is not in its registry yet. Build and push it now? [y/N] "
    if not sys.stdin.isatty() or input(question).strip().lower() not in ("y", "yes"):
        return False
    platform = making.architecture(made.get("platform", "linux/amd64"))
    push(making.Wanted(image, reference.parse(making.default_base()), platform), access)
    return True


def _meter(bars: ExitStack) -> Callable[[str], Any]:
    from umiak.image.push import Meter

    return lambda title: Meter(bars.enter_context(bar(title)))


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def _of_job() -> str | None:
    if not JOB_FILE.exists():
        return None
    from umiak.spec import yamlfile
    from umiak.spec.job import JobSpec

    return yamlfile.load(JOB_FILE, JobSpec).image


def cluster() -> dict[str, str]:
    """What the kubeconfig here says of a cluster that `umiak cluster up` made."""
    from umiak.kube import kubeconfig

    try:
        return dict(kubeconfig.load(None, None, os.environ).made)
    except InputError:
        return {}


def ecr(region: str) -> tuple[str, str]:
    """ECR's login, by the AWS credentials of this machine."""
    import base64

    from umiak.cluster.aws import Aws

    answer = Aws(region).call("ecr", "GetAuthorizationToken")
    user, _, password = base64.b64decode(answer["authorizationData"][0]["authorizationToken"]).decode().partition(":")
    return user, password
