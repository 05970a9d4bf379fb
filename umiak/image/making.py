"""`umiak image push` from end to end: base, layers, registry."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from umiak.errors import InputError
from umiak.image import base as bases
from umiak.image import project, runtime
from umiak.image.credentials import Login, login
from umiak.image.http import Http
from umiak.image.layers import Store, cache
from umiak.image.packages import PLATFORMS, Target, Torch
from umiak.image.project import Extended
from umiak.image.push import Meter, Pushed, push
from umiak.image.reference import Reference
from umiak.image.registry import Repository

PULL, PUSH = "pull", "pull,push"


@dataclass(frozen=True)
class Access:
    """How registries are reached. `ecr` asks AWS for the login of a region's registry."""

    ecr: Callable[[str], Login]
    plain: bool = False

    def repository(self, image: Reference, actions: str) -> Repository:
        return Repository(image, Http(image, login(image.host, self.ecr), self.plain, actions))


@dataclass(frozen=True)
class Wanted:
    """What to make."""

    image: Reference
    base: Reference
    architecture: str = "amd64"
    torch: Torch = field(default_factory=Torch)


def default_base() -> str:
    """Debian with this very Python: then bytecode and kernels can be made here."""
    return f"docker.io/library/python:3.{sys.version_info[1]}-slim-bookworm"


def architecture(text: str) -> str:
    """`linux/amd64` or `amd64`."""
    name = text.removeprefix("linux/")
    if name not in PLATFORMS:
        raise InputError(f"--platform {text}: write {' or '.join(f'linux/{each}' for each in PLATFORMS)}")
    return name


def make(wanted: Wanted, access: Access, show: Callable[[str], Meter], say: Callable[[str], None]) -> Pushed:
    if wanted.image.digest:
        raise InputError(f"{wanted.image}: a digest follows from the content; name a tag, or nothing for latest")
    store = Store(cache())
    repository = access.repository(wanted.image, PUSH)
    # Asked first: a registry that does not let us in should not cost the time of a build.
    before = repository.manifest(wanted.image.version)
    base = bases.fetch(
        access.repository(wanted.base, PULL), wanted.architecture, store, show("fetching the base").expect
    )
    say(f"base {base.image}: Python 3.{base.minor} for linux/{wanted.architecture}")
    target = Target(wanted.architecture, base.minor)
    layers = runtime.build(base, target, wanted.torch, store, say)
    config = runtime.config(base, target, layers)
    pushed = push(repository, config, [*base.layers, *layers], store, show("pushing"), wanted.base)
    if before and before[1] == pushed.digest:
        say("the registry had exactly this image already")
    return pushed


def extend(image: Reference, requirements: Path, access: Access, meter: Meter, say: Callable[[str], None]) -> Extended:
    """A job's own packages on top of its image."""
    return project.extend(access.repository(image, PUSH), requirements, Store(cache()), meter, say)


def is_missing(image: Reference, access: Access) -> bool:
    """Whether a registry that we can ask does not have it."""
    return access.repository(image, PULL).manifest(image.version) is None
