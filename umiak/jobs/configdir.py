"""The config directory as one small file that travels inside a ConfigMap. The same files give the same bytes."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from umiak.errors import InputError

MOST_BYTES = 900_000
# Nothing this large packs into MOST_BYTES; found before time is spent on packing it.
MOST_RAW = 64_000_000
SKIPPED = ("__pycache__",)


def pack(directory: Path, entry: str, more: Mapping[str, bytes] | None = None) -> bytes:
    """Everything in the directory but caches and dot-files, and `more` files, as a tar.gz."""
    if not directory.is_dir():
        raise InputError(f"config: {directory} is not a directory; name the one that holds {entry}")
    if not (directory / entry).is_file():
        raise InputError(f"entry: there is no {entry} in {directory}; name the config file there")
    files = _files(directory)
    try:
        sizes = {name: path.stat().st_size for name, path in files.items()}
        if sum(sizes.values()) > MOST_RAW:
            raise _too_big(directory, sum(sizes.values()), "", sizes)
        packed = _packed({**{name: path.read_bytes() for name, path in files.items()}, **(more or {})})
    except OSError as error:
        raise InputError(f"config: cannot read {error.filename}: {error.strerror}") from None
    if len(packed) > MOST_BYTES:
        raise _too_big(directory, len(packed), " packed", sizes)
    return packed


def _files(directory: Path) -> dict[str, Path]:
    names = {str(path.relative_to(directory)): path for path in directory.rglob("*")}
    return {
        name: path
        for name, path in sorted(names.items())
        if path.is_file() and not any(part.startswith(".") or part in SKIPPED for part in Path(name).parts)
    }


def _packed(files: Mapping[str, bytes]) -> bytes:
    raw = io.BytesIO()
    # Times and owners are left out: they differ between two copies of one directory.
    with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
        for name, content in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o644
            tar.addfile(info, io.BytesIO(content))
    return raw.getvalue()


def _too_big(directory: Path, size: int, packed: str, sizes: dict[str, int]) -> InputError:
    largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
    named = ", ".join(f"{name} ({sizes[name] / 1000:,.0f} kB)" for name in largest)
    return InputError(
        f"config: {directory} has {size / 1000:,.0f} kB{packed}, and {MOST_BYTES // 1000} kB packed is the most a job can carry: "
        f"put data on the volume and only the config here; the largest files are {named}"
    )
