"""Layers: files as a compressed archive that is the same for the same files, kept in the cache under the name of its inputs.

The cache is `~/.cache/umiak/image` (XDG_CACHE_HOME): blobs by digest, and an index that says which inputs gave which. What no
push has used for 30 days is removed.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from umiak.errors import InputError
from umiak.files import atomic, is_full, make_directory, write_json

# All files have this time (1980-01-01, the earliest that zip files know): their real ones differ between two builds.
MOMENT = 315532800
KEEP_SECONDS = 30 * 24 * 3600
# No build takes this long: its process was killed.
BUILD_SECONDS = 24 * 3600
# Level 6 takes four times as long for 5 % less.
LEVEL = 1
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar"


@dataclass(frozen=True)
class Layer:
    digest: str
    size: int
    # The digest before compression, by which the image's config knows it.
    diff: str
    media: str = f"{OCI_LAYER}+gzip"
    about: str = ""


@dataclass(frozen=True)
class Entry:
    """One file of a layer: what `source` says, or a link."""

    name: str
    source: Path | bytes = b""
    mode: int = 0o644
    owner: int = 0
    link: str = ""
    is_directory: bool = False

    def info(self) -> tarfile.TarInfo:
        info = tarfile.TarInfo(self.name)
        info.mode, info.mtime, info.uid, info.gid = self.mode, MOMENT, self.owner, self.owner
        if self.is_directory:
            info.type = tarfile.DIRTYPE
        elif self.link:
            info.type, info.linkname = tarfile.SYMTYPE, self.link
        else:
            info.size = len(self.source) if isinstance(self.source, bytes) else self.source.stat().st_size
        return info


class Store:
    def __init__(self, root: Path) -> None:
        self.root = root
        for part in ("blobs", "index"):
            make_directory(root / part)

    def blob(self, digest: str) -> Path:
        return self.root / "blobs" / digest.replace(":", "-")

    def known(self, key: str) -> Any | None:
        """What was remembered for these inputs, if every layer of it is still here."""
        path = self.root / "index" / f"{key}.json"
        try:
            found = json.loads(path.read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        if not all(self.blob(layer["digest"]).exists() for layer in found["layers"]):
            return None
        path.touch()
        for layer in found["layers"]:
            self.blob(layer["digest"]).touch()
        return found

    def layers(self, key: str, make: Callable[[], Iterable[Layer]]) -> list[Layer]:
        """The layers that these inputs give: of the cache, else made."""
        if found := self.known(key):
            return [Layer(**layer) for layer in found["layers"]]
        made = list(make())
        self.remember(key, made)
        return made

    def remember(self, key: str, layers: Iterable[Layer], **more: Any) -> None:
        write_json(self.root / "index" / f"{key}.json", {**more, "layers": [asdict(layer) for layer in layers]})

    def write(self, entries: Iterable[Entry], about: str) -> Layer:
        """Pack entries, in the order of their names."""
        part = self.root / "blobs" / f"new.{os.getpid()}.{time.monotonic_ns()}"
        try:
            with atomic(part) as file:
                compressed = _Hashing(file.write)
                with gzip.GzipFile(filename="", fileobj=compressed, mode="wb", compresslevel=LEVEL, mtime=0) as zipped:
                    plain = _Hashing(zipped.write)
                    _pack(plain, sorted(entries, key=lambda entry: entry.name))
            layer = Layer(compressed.digest, compressed.size, plain.digest, about=about)
            part.rename(self.blob(layer.digest))
            return layer
        except OSError as error:
            if is_full(error):
                raise InputError(
                    f"{self.root} has no room for the image's layers; free some, or set XDG_CACHE_HOME"
                ) from None
            raise
        finally:
            part.unlink(missing_ok=True)

    def put(self, content: bytes) -> str:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        with atomic(self.blob(digest)) as file:
            file.write(content)
        return digest

    def clean(self, now: float) -> None:
        """Remove what no push has used for long, and what a killed one was building."""
        for path in self.root.glob("build-*"):
            if now - path.stat().st_mtime > BUILD_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
        for path in (*(self.root / "blobs").iterdir(), *(self.root / "index").iterdir()):
            try:
                if now - path.stat().st_mtime > KEEP_SECONDS:
                    path.unlink()
            except FileNotFoundError:
                # Another push cleans as well.
                continue


class _Hashing(io.RawIOBase):
    """Passes on what is written, and knows its digest and size."""

    def __init__(self, write: Callable[[bytes], Any]) -> None:
        self._write, self._hash, self.size = write, hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._write(bytes(data))
        self._hash.update(data)
        self.size += len(data)
        return len(data)

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


def _pack(out: io.RawIOBase, entries: Iterable[Entry]) -> None:
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.GNU_FORMAT, bufsize=1 << 20) as tar:
        for entry in entries:
            info = entry.info()
            if not info.isreg():
                tar.addfile(info)
            elif isinstance(entry.source, bytes):
                tar.addfile(info, io.BytesIO(entry.source))
            else:
                with entry.source.open("rb") as file:
                    tar.addfile(info, file)


def key(*inputs: object) -> str:
    """A name for exactly these inputs."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()[:32]


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "umiak" / "image"
