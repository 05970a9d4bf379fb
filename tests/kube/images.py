"""Images for the tests: built from Dockerfiles by buildah, kept as an OCI layout that the registry serves.

The large layers (Debian, Python, torch: 5 GB) are made once per lock file and unpacked once into a `seed`, a containerd
directory from which every node gets hard links. What changes with the code is a thin layer on top, which nodes pull.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.kube import build as binaries_of
from tests.kube import needs, seed
from tests.kube.cleanup import mounts
from tests.kube.command import run
from tests.kube.places import CLONE, cache, key
from umiak.errors import UmiakError

RUNTIME = "docker.io/umiak/runtime:test"
LIBRARIES = "docker.io/umiak/libraries:test"
BASE = "docker.io/umiak/base:test"
PAUSE = "docker.io/umiak/pause:test"
DOCKERFILE = CLONE / "docker" / "Dockerfile"
DEBIAN = ("bookworm", "http://deb.debian.org/debian", "python3,python3-venv,ca-certificates")
CERTIFICATES = "/etc/ssl/certs"
KEPT = 2


@dataclass(frozen=True)
class Image:
    """An image of the layout, by the digest of its manifest; `tag` is its name for a Dockerfile's FROM."""

    digest: str
    tag: str = ""


def layout() -> Path:
    return _store() / "layout"


def _store() -> Path:
    """One directory for all that follows from the lock files and the Dockerfile; the heavy part of the cache."""
    docker = CLONE / "docker"
    heavy: list[str | Path] = [
        CLONE / "bootstrap.lock",
        CLONE / "umiak" / "image" / "runtime.lock",
        CLONE / "umiak" / "image" / "locks.py",
        docker / "install.py",
        _heavy_stage(),
    ]
    return cache() / f"images-{key([*DEBIAN, *heavy])}"


def _heavy_stage() -> str:
    return DOCKERFILE.read_text().partition("\nFROM libraries\n")[0]


def pause(binaries: Path) -> Image:
    """The image of the process that holds a pod's namespaces: one file."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        entry = tarfile.TarInfo("pause")
        data = (binaries / "pause").read_bytes()
        entry.size, entry.mode = len(data), 0o755
        tar.addfile(entry, io.BytesIO(data))
    layer_digest, size = _put(layer.getvalue()), len(layer.getvalue())
    described = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/pause"]},
        "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
    }
    config = json.dumps(described).encode()
    kind = "application/vnd.oci.image"
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{kind}.manifest.v1+json",
        "config": {"mediaType": f"{kind}.config.v1+json", "digest": _put(config), "size": len(config)},
        "layers": [{"mediaType": f"{kind}.layer.v1.tar", "digest": layer_digest, "size": size}],
    }
    return Image(_put(json.dumps(manifest).encode()))


def _put(data: bytes) -> str:
    name = hashlib.sha256(data).hexdigest()
    path = layout() / "blobs" / "sha256" / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{name}.{os.getpid()}")
        part.write_bytes(data)
        part.rename(path)
    return f"sha256:{name}"


def base() -> Image:
    """Debian with Python, as its own installer makes it: the images of the tests start from it."""
    archive = cache() / f"base-{key(DEBIAN)}.tar"
    with binaries_of.only_one(cache() / "base.lock", "another process makes the base image; waiting for it"):
        if not archive.exists():
            suite, mirror, packages = DEBIAN
            print(f"making a base image of Debian {suite}, once: about a minute", flush=True)
            part = archive.with_suffix(".part")
            command = ["debootstrap", "--variant=minbase", f"--include={packages}", suite]
            run(*command, part, mirror, timeout=900)
            run("tar", "--create", "--directory", part, "--exclude=./var/cache/apt", "--file", f"{archive}.new", ".")
            shutil.rmtree(part)
            Path(f"{archive}.new").rename(archive)
    return build(f'FROM scratch\nADD {archive.name} /\nCMD ["python3"]\n', "umiak/base", archive.parent, [archive.name])


def libraries() -> Image:
    """What docker/Dockerfile makes before any code of ours enters; its inputs are those of the store."""
    return build(_heavy_stage(), "umiak/libraries", CLONE, [], _arguments())


def runtime() -> Image:
    """The image of docker/Dockerfile with the code of this clone."""
    libraries()
    sources = sorted((CLONE / "umiak").rglob("*.py"))
    names = [str(path.relative_to(CLONE)) for path in sources]
    return build(
        DOCKERFILE.read_text(),
        "umiak/runtime",
        CLONE,
        [*names, *sources, CLONE / "umiak" / "image" / "launcher.sh"],
        _arguments(),
    )


def _arguments() -> dict[str, str]:
    return {"BASE": base().tag, "TORCH": "lock"}


def seed_for(binaries: Path) -> Path:
    """The unpacked large images; see `seed`."""
    wanted = {PAUSE: pause(binaries).digest, BASE: base().digest, LIBRARIES: libraries().digest}
    with binaries_of.only_one(_store() / "seed.lock", "another process unpacks the images; waiting for it"):
        return seed.make(_store(), layout(), binaries, wanted)


def build(
    dockerfile: str,
    name: str,
    context: Path,
    depends: Iterable[str | Path],
    args: Mapping[str, str] | None = None,
) -> Image:
    """Build a Dockerfile unless this one was built from the same `depends` before. Another may say FROM its tag."""
    tag = f"localhost/{name}:{key([dockerfile, json.dumps(args or {}), *depends])}"
    done = _store() / "built" / tag.replace("/", "_")
    if done.exists():
        return Image(done.read_text().strip(), tag)
    with binaries_of.only_one(_store() / "lock", "another process builds images; waiting for it"):
        if not done.exists():
            began = time.monotonic()
            file = _store() / "Dockerfile"
            file.write_text(dockerfile)
            given = [word for pair in (args or {}).items() for word in ("--build-arg", "=".join(pair))]
            mount = f"{CERTIFICATES}:{CERTIFICATES}:ro"
            how = [
                "--layers",
                "--isolation=chroot",
                "--network=host",
                f"--volume={mount}",
                f"--file={file}",
                f"--tag={tag}",
            ]
            print(f"building {name}", flush=True)
            _buildah("bud", *how, *given, str(context))
            digest = _export(tag, name)
            done.parent.mkdir(exist_ok=True)
            done.write_text(digest)
            print(f"built {name} in {time.monotonic() - began:.0f} s", flush=True)
    return Image(done.read_text().strip(), tag)


def _export(tag: str, name: str) -> str:
    """Copy an image from buildah's storage into the layout: layers as they are, and none that is there already."""
    storage = f"overlay@{_store() / 'storage'}+{_store() / 'run'}"
    copy = ["skopeo", "copy", "--quiet", "--insecure-policy", "--dest-oci-accept-uncompressed-layers"]
    try:
        run(*copy, f"containers-storage:[{storage}]{tag}", f"oci:{layout()}:{name}", timeout=1200)
    finally:
        _unmount()
    index = json.loads((layout() / "index.json").read_text())
    named = "org.opencontainers.image.ref.name"
    found = [each["digest"] for each in index["manifests"] if each.get("annotations", {}).get(named) == name]
    return str(found[-1])


def _buildah(*words: str) -> None:
    """Its own storage and scratch space, so that no other user of buildah sees or loses anything."""
    scratch = _store() / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    storage = ["--root", str(_store() / "storage"), "--runroot", str(_store() / "run"), "--storage-driver", "overlay"]
    command = ["buildah", *storage, *words]
    env = {**os.environ, "TMPDIR": str(scratch)}
    try:
        done = subprocess.run(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    finally:
        _unmount()
    if done.returncode:
        raise UmiakError(f"buildah {words[0]} failed: {done.stdout.strip()[-3000:]}")


def _unmount() -> None:
    """The storage library mounts its directory on itself and leaves it so."""
    for point in mounts(str(_store() / "storage")):
        run("umount", "--lazy", point)


def ensure() -> Image:
    """The runtime image and all below it; nothing is done for what is there. The newest two heavy stores are kept."""
    needs.require()
    image = runtime()
    (_store() / "used").touch()
    stores = sorted(
        cache().glob("images-*"), key=lambda path: (path / "used").stat().st_mtime if (path / "used").exists() else 0
    )
    for old in stores[:-KEPT]:
        shutil.rmtree(old)
    return image
