"""`umiak cluster up | status | diff | kubeconfig | token | destroy`: an AWS cluster that is created, watched and removed."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

from umiak.errors import InputError, UmiakError
from umiak.files import atomic

# Something is left after a destroy.
LEFT = 1


def load(path: Path) -> Any:
    from umiak.spec import yamlfile
    from umiak.spec.cluster import ClusterSpec

    if not path.exists():
        raise InputError(f"{path}: no such file; write one with `umiak cluster init --name … --region …`")
    return yamlfile.load(path, ClusterSpec)


def _aws(options: argparse.Namespace) -> tuple[Any, Any]:
    """(cluster file, AWS in its region)."""
    from umiak.cluster.aws import Aws

    spec = load(options.file)
    return spec, Aws(spec.region)


def talk(yes: bool) -> Any:
    from umiak.cluster.talk import Talk

    def ask(question: str) -> str | None:
        if not sys.stdin.isatty():
            return None
        try:
            return input(question)
        except EOFError:
            return None

    return Talk(lambda text: print(text, flush=True), ask, yes)


def _connect(path: Path) -> Any:
    from umiak.kube import kubeconfig
    from umiak.kube.api import Api

    return Api(kubeconfig.load(path, None, {}))


def up(options: argparse.Namespace) -> int:
    from umiak.cluster.prices import PriceBook
    from umiak.cluster.up import Up

    if options.api_access:
        _choose(options)
    spec, aws = _aws(options)
    spec = _reused(options, spec, aws)
    book = PriceBook(aws, False, datetime.now(UTC))
    try:
        done = Up(aws, spec, talk(options.yes), book, _connect, options.kubeconfig, date.today(), options.force).run()
    except KeyboardInterrupt:
        print(
            "AWS continues on its own; `umiak cluster up` resumes watching, `umiak cluster destroy` removes it",
            flush=True,
        )
        raise
    if not done:
        print("nothing was changed")
    elif sys.stdin.isatty() and not options.yes:
        _offer_image(options)
    return 0


def _offer_image(options: argparse.Namespace) -> None:
    """The last thing that a first job needs, unless it is there already."""
    from umiak.cli import image
    from umiak.kube import kubeconfig

    image.offer(kubeconfig.load(options.kubeconfig, None, {}).made)


def _choose(options: argparse.Namespace) -> None:
    """Who reaches the API server is written into the cluster file, which decides also from now on."""
    from umiak import address
    from umiak.cluster import reach

    load(options.file)
    chosen = reach.choice(options.api_access, address.mine)
    reach.rewrite(options.file, chosen)
    through = "nobody but `umiak cluster connect`" if chosen.bastion else ", ".join(chosen.cidrs) or "the VPC only"
    print(f"{options.file}: the API server can be reached from {through}", flush=True)


def _reused(options: argparse.Namespace, spec: Any, aws: Any) -> Any:
    """The spec, with what an earlier cluster kept if the user wants it; then cluster.yaml says so too."""
    from umiak.cluster import initial, reuse
    from umiak.cluster.display import showing

    kept = reuse.look(aws, spec)
    if kept is None:
        if options.reuse:
            print("there is nothing to reuse: no earlier cluster kept anything, or the cluster already exists")
        return spec
    print(showing.kept(spec, kept), flush=True)
    if not kept.usable:
        return spec
    if not options.reuse:
        if options.yes:
            print("nothing is reused; --reuse uses it", flush=True)
            return spec
        if not talk(False).agreed(f"Use it again, and write that into {options.file}?"):
            return spec
    chosen = reuse.adopt(aws, spec, kept)
    if options.file.read_text(encoding="utf-8") != initial.text(spec):
        raise InputError(
            f"{options.file} was edited by hand and is not rewritten; put this into it and run this again:\n"
            + showing.reuse_lines(chosen)
        )
    beside = options.file.with_suffix(".new")
    beside.write_text(initial.text(chosen), encoding="utf-8")
    beside.replace(options.file)
    return chosen


def status(options: argparse.Namespace) -> int:
    from umiak.cluster import status as looking
    from umiak.cluster import waiting
    from umiak.cluster.display import showing
    from umiak.cluster.prices import PriceBook

    spec, aws = _aws(options)
    book = PriceBook(aws, False, datetime.now(UTC))
    while True:
        found = looking.look(aws, spec, book)
        print(json.dumps(found.to_dict()) if options.json else showing.status(found), flush=True)
        if not options.watch or found.settled:
            return 0
        waiting.sleep(waiting.LONGEST)


def patch(options: argparse.Namespace) -> int:
    from umiak.cluster import stacks, states, versions

    spec, aws = _aws(options)
    stack = stacks.find(aws, spec.name)
    stacks.refuse_foreign(spec, stack)
    if stack is None or stack.status not in states.WHOLE:
        raise InputError(
            f"cluster {spec.name} is {stack.status if stack else 'not created'}; `umiak cluster up` comes first"
        )
    if not talk(options.yes).agreed(
        "Renew add-ons and nodes? Nodes are replaced one by one; jobs resume from checkpoints."
    ):
        print("nothing was changed")
        return 0
    done = versions.patch(aws, spec, stack.id, lambda text: print(text, flush=True))
    print(f"cluster {spec.name}: " + ("add-ons and nodes are up to date" if done else "nothing to renew"))
    return 0


def diff(options: argparse.Namespace) -> int:
    from umiak.cluster.display import showing
    from umiak.cluster.up import differences

    spec, aws = _aws(options)
    found = differences(aws, spec)
    if found is None:
        print(f"cluster {spec.name} does not exist yet; `umiak cluster up` creates it")
    else:
        print(showing.changes(found) or f"cluster {spec.name} matches {options.file}")
    return 0


def kubeconfig(options: argparse.Namespace) -> int:
    from umiak.cluster import access

    spec, aws = _aws(options)
    access.write(aws, spec, options.kubeconfig)
    print(f"{options.kubeconfig}: use it with `kubectl --kubeconfig {options.kubeconfig} get nodes`")
    return 0


def connect(options: argparse.Namespace) -> int:
    from umiak.cluster import access
    from umiak.cluster import connect as connecting

    spec, aws = _aws(options)
    command = [word for number, word in enumerate(options.command) if number or word != "--"]
    with connecting.tunnel(aws, spec, lambda text: print(text, file=sys.stderr, flush=True), options.port) as port:
        access.write(aws, spec, options.kubeconfig, port)
        if command:
            return _run(command, options.kubeconfig)
        print(
            f"{options.kubeconfig} leads to {spec.name} on port {port}: work in another terminal, stop with Ctrl-C",
            flush=True,
        )
        _until_ended()
    return 0


def _until_ended() -> None:
    """Ctrl-C, or a signal to end. Both are heard also where a shell started us in the background, with Ctrl-C ignored."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()


def _run(command: list[str], kubeconfig: Path) -> int:
    """Its exit code. Ctrl-C is for the command; we stay until it has ended."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig.resolve())}
        restore = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        return subprocess.run(command, env=environment, preexec_fn=restore, check=False).returncode
    except OSError as error:
        raise InputError(f"cannot run {command[0]}: {error.strerror}") from None
    finally:
        signal.signal(signal.SIGINT, before)


def token(options: argparse.Namespace) -> int:
    from umiak.cluster import access
    from umiak.cluster.aws import Aws

    print(access.credential(Aws(options.region), options.name, datetime.now(UTC)))
    return 0


def report(options: argparse.Namespace) -> int:
    from umiak.cluster import access
    from umiak.cluster.display import report as reporting
    from umiak.cluster.prices import PriceBook

    spec, aws = _aws(options)
    client = access.client_of(options.kubeconfig, _connect)
    text = reporting.write(aws, spec, PriceBook(aws, False, datetime.now(UTC)), client, date.today())
    if options.out is None:
        print(text, end="")
        return 0
    with atomic(options.out) as file:
        file.write(text.encode())
    print(f"{options.out}: read it before you send it to anyone")
    return 0


def destroy(options: argparse.Namespace) -> int:
    from umiak.cluster import access
    from umiak.cluster import destroy as removing
    from umiak.cluster.display import showing
    from umiak.cluster.removal import Work

    spec, aws = _aws(options)
    client = access.client_of(options.kubeconfig, _connect)
    try:
        with contextlib.ExitStack() as open_until_the_end:
            if spec.kubernetes.bastion:
                client = partial(_through, aws, spec, options.kubeconfig, client, open_until_the_end)
            remains = removing.destroy(Work(aws, spec, talk(options.yes), client, options.earlier))
    except KeyboardInterrupt:
        print("not finished: `umiak cluster destroy` resumes from here", flush=True)
        raise
    if remains is None:
        return 0
    print(showing.remains(spec, remains))
    return LEFT if remains.left else 0


def _through(aws: Any, spec: Any, path: Path, client: Any, until: contextlib.ExitStack) -> Any:
    """A client that reaches a private API server; where nothing leads there, one that will say so, and AWS is asked instead."""
    from umiak.cluster import access
    from umiak.cluster import connect as connecting

    if not path.exists():
        return None
    with contextlib.suppress(UmiakError):
        port = until.enter_context(connecting.tunnel(aws, spec, lambda text: print(text, flush=True)))
        access.write(aws, spec, path, port)
    return client()
