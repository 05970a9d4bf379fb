"""Names of images: `HOST/REPOSITORY:TAG` or `…@sha256:…`, read as Docker reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from umiak.errors import InputError

HUB = "docker.io"
# Where Docker Hub's API answers.
HUB_API = "registry-1.docker.io"
_NAME = re.compile(
    r"(?P<path>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_LOOPBACK = re.compile(r"(localhost|127\.[\d.]+|\[::1\])(:\d+)?")


@dataclass(frozen=True)
class Reference:
    host: str
    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        return f"{self.name}{f':{self.tag}' if self.tag else ''}{f'@{self.digest}' if self.digest else ''}"

    @property
    def name(self) -> str:
        return f"{self.host}/{self.repository}"

    @property
    def version(self) -> str:
        """What a registry is asked for: the digest, if there is one."""
        return self.digest or self.tag or "latest"

    @property
    def api(self) -> str:
        return HUB_API if self.host == HUB else self.host

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, where registries speak plain HTTP."""
        return bool(_LOOPBACK.fullmatch(self.host))


def parse(text: str) -> Reference:
    first, slash, rest = text.partition("/")
    host = first if slash and (set(first) & set(".:") or first == "localhost") else ""
    found = _NAME.fullmatch(rest if host else text)
    if found is None:
        raise InputError(f"{text!r} is not the name of an image; write it like registry.example.com/team/runtime:1")
    path = found["path"] if host or "/" in found["path"] else f"library/{found['path']}"
    return Reference(host or HUB, path, found["tag"] or "", found["digest"] or "")
