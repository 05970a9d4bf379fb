"""A project's own packages, as one thin layer on top of a runtime image that is in its registry already.

Only its description is read: the large layers below stay where they are.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from umiak.errors import InputError
from umiak.image import packages, runtime
from umiak.image.layers import Layer, Store, key
from umiak.image.packages import Target
from umiak.image.push import Meter, push
from umiak.image.reference import Reference
from umiak.image.registry import MANIFESTS, Repository


@dataclass(frozen=True)
class Extended:
    image: Reference
    # What the requirements became: every package with its version and hashes.
    lock: str


def extend(
    repository: Repository, requirements: Path, store: Store, meter: Meter, say: Callable[[str], None]
) -> Extended:
    if not requirements.is_file():
        raise InputError(f"requirements: there is no file {requirements}; write it, or leave the field out")
    config, layers = _described(repository, store)
    target = _target(repository.image, config)
    say(f"resolving {requirements.name} for linux/{target.architecture} and Python 3.{target.minor}")
    lock = packages.resolve(target, requirements, packages.LOCK.read_text())
    extra = _without(lock, packages.LOCK.read_text())
    if not extra:
        return Extended(repository.image, lock)
    (layer,) = store.layers(
        key("requirements", runtime.FORMAT, target.architecture, target.minor, extra),
        lambda: [_layer(target, extra, store)],
    )
    config["rootfs"]["diff_ids"].append(layer.diff)
    tag = f"{repository.image.tag or 'latest'}-{hashlib.sha256(extra.encode()).hexdigest()[:12]}"
    tagged = Repository(replace(repository.image, tag=tag, digest=""), repository.http)
    pushed = push(tagged, config, [*layers, layer], store, meter)
    return Extended(replace(repository.image, tag="", digest=pushed.digest), lock)


def _described(repository: Repository, store: Store) -> tuple[dict[str, Any], list[Layer]]:
    found = repository.manifest(repository.image.version)
    if found is None:
        raise InputError(f"{repository.image.host} has no image {repository.image}; push it with `umiak image push`")
    manifest = found[0]
    if manifest["mediaType"].partition(";")[0] not in MANIFESTS:
        raise InputError(f"{repository.image} is for several platforms; name the image of one, by its digest")
    digest = manifest["config"]["digest"]
    if not store.blob(digest).exists():
        repository.download(digest, store.blob(digest), lambda count: None)
    config = json.loads(store.blob(digest).read_bytes())
    pairs = zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True)
    return config, [Layer(entry["digest"], entry["size"], diff, entry["mediaType"]) for entry, diff in pairs]


def _target(image: Reference, config: dict[str, Any]) -> Target:
    labels = (config.get("config") or {}).get("Labels") or {}
    if labels.get(runtime.LOCK_LABEL) != runtime.lock_digest():
        raise InputError(
            f"{image} was not made by `umiak image push` of this version, so `requirements` cannot be added to it; push it "
            "again, or build an image of your own that has the packages and leave `requirements` out"
        )
    return Target(config["architecture"], int(labels[runtime.PYTHON_LABEL].partition(".")[2]))


def _without(lock: str, known: str) -> str:
    """The entries of a lock whose packages another does not have."""
    names = {_name(entry) for entry in _entries(known)}
    return "".join(entry for entry in _entries(lock) if _name(entry) not in names)


def _entries(lock: str) -> list[str]:
    return [entry for entry in re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE) if "==" in entry]


def _name(entry: str) -> str:
    """As package indexes compare names."""
    return re.sub(r"[-_.]+", "-", entry.partition("==")[0].strip()).lower()


def _layer(target: Target, lock: str, store: Store) -> Layer:
    with tempfile.TemporaryDirectory(dir=store.root, prefix="build-") as work:
        directory = Path(work) / "packages"
        packages.install(target, lock, None, directory)
        packages.compile_all(target, directory, target.site)
        return store.write(packages.entries(target, directory), "requirements")
