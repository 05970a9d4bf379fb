"""The image that ours stands on: Linux with Python 3.11 or newer. Found by digest, fetched, and looked into."""

from __future__ import annotations

import concurrent.futures
import json
import re
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from umiak.errors import InputError
from umiak.image.layers import OCI_LAYER, Layer, Store, key
from umiak.image.reference import Reference
from umiak.image.registry import INDEXES, Progress, Repository

_INTERPRETER = re.compile(r"(?P<bin>usr/(local/)?bin)/python3\.(?P<minor>\d+)")
_MUSL = re.compile(r"(usr/)?lib/ld-musl-.*")
_ACCOUNTS = ("etc/passwd", "etc/group")
OLDEST_MINOR = 11
PARALLEL = 4


@dataclass(frozen=True)
class Base:
    image: Reference
    config: dict[str, Any]
    layers: tuple[Layer, ...]
    # 11 for Python 3.11, and the directory of its interpreter.
    minor: int
    directory: str
    accounts: dict[str, str]


def resolve(repository: Repository, architecture: str) -> tuple[Reference, dict[str, Any]]:
    """The image for this architecture, by digest, and its manifest."""
    image = repository.image
    found = repository.manifest(image.version)
    if found is None:
        raise InputError(f"{image.host} has no image {image}; name another with --base")
    manifest, digest = found
    if manifest["mediaType"].partition(";")[0] in INDEXES:
        wanted = {"architecture": architecture, "os": "linux"}
        offered = [each for each in manifest["manifests"] if wanted.items() <= (each.get("platform") or {}).items()]
        if not offered:
            raise InputError(f"{image} has no image for linux/{architecture}; name another with --base")
        digest = str(offered[0]["digest"])
        found = repository.manifest(digest)
        if found is None:
            raise InputError(f"{image.host} lists {digest} as {image}, but does not have it; name another with --base")
        manifest = found[0]
    return replace(image, tag="", digest=digest), manifest


def fetch(repository: Repository, architecture: str, store: Store, progress: Callable[[int], Progress]) -> Base:
    """The base and its layers, into the cache. `progress` is told how much comes."""
    image, manifest = resolve(repository, architecture)
    name = key("base", str(image))
    found = store.known(name)
    if found is None:
        _download(repository, store, [manifest["config"], *manifest["layers"]], progress)
        config = json.loads(store.blob(manifest["config"]["digest"]).read_bytes())
        layers = [
            Layer(entry["digest"], entry["size"], diff, _oci(entry["mediaType"]), "base")
            for entry, diff in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True)
        ]
        found = {"config": config, **_look(store, layers, image)}
        store.remember(name, layers, **found)
        found = store.known(name) or {}
    return Base(image, found["config"], tuple(Layer(**layer) for layer in found["layers"]), *_seen(found))


def _seen(found: dict[str, Any]) -> tuple[int, str, dict[str, str]]:
    return found["minor"], found["directory"], found["accounts"]


def _download(
    repository: Repository, store: Store, entries: list[dict[str, Any]], progress: Callable[[int], Progress]
) -> None:
    missing = [entry for entry in entries if not store.blob(entry["digest"]).exists()]
    tell = progress(sum(entry["size"] for entry in missing))
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        for done in [
            pool.submit(repository.download, entry["digest"], store.blob(entry["digest"]), tell) for entry in missing
        ]:
            done.result()


def _oci(media: str) -> str:
    """The same layer in OCI's words: manifests of Docker say it in their own."""
    return (
        f"{OCI_LAYER}+gzip" if media.endswith("gzip") else f"{OCI_LAYER}+zstd" if media.endswith("zstd") else OCI_LAYER
    )


def _look(store: Store, layers: list[Layer], image: Reference) -> dict[str, Any]:
    """Its Python and its accounts: what stands in the uppermost layer counts."""
    found: dict[str, Any] = {"accounts": {}, "minor": 0, "directory": ""}
    for layer in layers:
        if layer.media.endswith("zstd"):
            raise InputError(
                f"a layer of {image} is compressed by zstd, which umiak cannot read; name another with --base"
            )
        with tarfile.open(store.blob(layer.digest), mode="r|*") as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                if name in _ACCOUNTS and (file := tar.extractfile(member)):
                    found["accounts"][name] = file.read().decode()
                elif seen := _INTERPRETER.fullmatch(name):
                    found |= {"minor": int(seen["minor"]), "directory": f"/{seen['bin']}"}
                elif _MUSL.fullmatch(name):
                    raise InputError(
                        f"{image} is built on musl, for which torch has no packages; name an image with glibc as --base, "
                        "like python:3.11-slim-bookworm"
                    )
    if found["minor"] < OLDEST_MINOR:
        raise InputError(
            f"{image} has no Python 3.{OLDEST_MINOR} or newer in /usr/bin or /usr/local/bin; name another with --base"
        )
    return found
