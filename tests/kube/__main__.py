"""`python -m tests.kube`: the test cluster by hand."""

from __future__ import annotations

import argparse
import sys
import time

from tests.kube import build, cluster, images
from umiak.errors import InputError, UmiakError


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.kube", description="A real Kubernetes on this machine, for tests."
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("up", help="start a cluster of three nodes; it runs until `down`")
    ends = verbs.add_parser("down", help="take this clone's cluster down, and what dead test runs left")
    ends.add_argument("--all", action="store_true", help="the clusters of every clone and test run on this machine")
    verbs.add_parser("shell", help="a shell in which kubectl and umiak use the cluster")
    verbs.add_parser("build", help="build Kubernetes into the cache")
    verbs.add_parser("image", help="build the runtime image from this clone, and give it to the cluster if one is up")
    given = parser.parse_args()
    try:
        return {"up": _up, "down": _down, "shell": _shell, "build": _build, "image": _image}[given.verb](given)
    except UmiakError as error:
        print(f"python -m tests.kube: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _up(given: argparse.Namespace) -> int:
    found = cluster.running()
    if found is None:
        began = time.monotonic()
        found = cluster.up()
        print(f"up in {time.monotonic() - began:.0f} s; `python -m tests.kube shell` enters it")
    print(f"export KUBECONFIG={found.kubeconfig}")
    return 0


def _down(given: argparse.Namespace) -> int:
    found = cluster.running()
    if found:
        cluster.down(found)
    removed = cluster.clean(everything=given.all)
    print("taken down" if found or removed else "no cluster of this clone is up")
    return 0


def _shell(given: argparse.Namespace) -> int:
    found = cluster.running()
    if found is None:
        raise InputError("no cluster of this clone is up; `python -m tests.kube up` starts one")
    return cluster.shell(found)


def _build(given: argparse.Namespace) -> int:
    binaries = build.build()
    print(f"Kubernetes {build.version(binaries)} in {binaries}")
    return 0


def _image(given: argparse.Namespace) -> int:
    image = images.ensure()
    images.seed_for(build.build())
    found = cluster.running()
    if found:
        found.publish(images.RUNTIME, image)
    print(f"{images.RUNTIME} is {image.digest}{' on every node' if found else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
