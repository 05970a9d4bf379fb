"""Who reaches the API server: the choice of `--api-access`, and how it is written into a cluster.yaml that exists."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from umiak.cluster.talk import Talk
from umiak.errors import InputError
from umiak.files import atomic
from umiak.spec import yamlfile
from umiak.spec.cluster import ClusterSpec

MINE, PRIVATE = "mine", "private"
QUESTION = (
    "Who may reach the API server from outside?\n"
    "  mine     this machine: its address is asked of {service}\n"
    "  private  nobody: `umiak cluster connect` goes through a small instance in the VPC, with AWS Systems Manager\n"
    "  or addresses, like 203.0.113.0/24,198.51.100.1/32\n"
    "[mine]: "
)


@dataclass(frozen=True)
class Choice:
    cidrs: tuple[str, ...]
    bastion: bool = False


def choice(text: str, find: Callable[[], str]) -> Choice:
    """What a user wrote or answered; `find` asks for this machine's address."""
    if text == MINE:
        return Choice((f"{find()}/32",))
    if text == PRIVATE:
        return Choice((), bastion=True)
    return Choice(tuple(part.strip() for part in text.split(",") if part.strip()))


def asked(talk: Talk, service: str) -> str | None:
    """The answer of somebody at a terminal; None where there is nobody."""
    answer = talk.ask(QUESTION.format(service=service))
    return None if answer is None else answer.strip() or MINE


def rewrite(path: Path, chosen: Choice) -> ClusterSpec:
    """Put a choice into a cluster.yaml, which keeps everything else that a user wrote into it."""
    old: ClusterSpec = yamlfile.load(path, ClusterSpec)
    text = path.read_text(encoding="utf-8")
    for name, value in (("bastion", chosen.bastion), ("api_cidrs", chosen.cidrs)):
        text = _replaced(text, name, yamlfile.written(value))
    wanted = replace(old, kubernetes=replace(old.kubernetes, api_cidrs=chosen.cidrs, bastion=chosen.bastion))
    candidate = path.with_name(f".{path.name}.new")
    try:
        candidate.write_text(text, encoding="utf-8")
        made = yamlfile.load(candidate, ClusterSpec)
    finally:
        candidate.unlink(missing_ok=True)
    if made != wanted:
        raise InputError(
            f"{path}: cannot put the choice into it as it is written; write kubernetes.api_cidrs: "
            f"{yamlfile.written(chosen.cidrs)} and kubernetes.bastion: {yamlfile.written(chosen.bastion)} yourself"
        )
    with atomic(path) as file:
        file.write(text.encode())
    return made


def _replaced(text: str, name: str, value: str) -> str:
    """A field below `kubernetes:` on a line of its own: replaced, or added as the first."""
    line = f"  {name}: {value}"
    changed, count = re.subn(rf"^  {name}:.*$", lambda _: line, text, flags=re.M)
    if count:
        return changed
    changed, count = re.subn(r"^kubernetes:[ \t]*$", lambda match: f"{match[0]}\n{line}", text, flags=re.M)
    return changed if count else f"{text.rstrip()}\n\nkubernetes:\n{line}\n"
