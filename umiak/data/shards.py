"""A data set cut into shards, one per trainer: where its files are, what its manifest says, and whether both agree.

Cutting is split.py's work. Two layouts of directories are known by the year their tutorial used them: in 2017 shard i is
ROOT/i/data, in 2016 it is ROOT/data/i. A shard set without a manifest, cut by hand, can be staged but not verified.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from umiak.data import formats, parquet
from umiak.errors import InputError
from umiak.files import CHUNK, atomic, patiently, read_bytes, write_json
from umiak.paths import is_relative, link_below

MANIFEST = "manifest.json"
LAYOUTS = {"2017": "{index}/data", "2016": "data/{index}"}
VERSION = 1
BATCH = 4096


@dataclass(frozen=True)
class Piece:
    """What one shard has of one file."""

    bytes: int
    sha256: str
    samples: int = 0


@dataclass(frozen=True)
class Entry:
    """One file of the source. `split` files have a piece in every shard, others are whole in each of them.

    Sample k of a split file is in shard (first + k) % shards; `content` is the checksum of all its samples in order, so that
    shards put together again can be compared with what they were cut from.
    """

    path: str
    split: bool
    pieces: tuple[Piece, ...]
    samples: int = 0
    first: int = 0
    content: str = ""
    header: bool = False


@dataclass(frozen=True)
class Manifest:
    """A shard set as it was written. `source` identifies what it was cut from."""

    shards: int
    layout: str
    source: dict[str, Any]
    files: tuple[Entry, ...]

    @property
    def samples(self) -> int:
        return sum(entry.samples for entry in self.files)

    def of_shard(self, index: int) -> int:
        """How many samples a shard has."""
        return sum(entry.pieces[index].samples for entry in self.files if entry.split)

    def write(self, root: Path) -> None:
        write_json(root / MANIFEST, {"version": VERSION, "samples": self.samples, **asdict(self)})


def read(root: Path) -> Manifest | None:
    path = root / MANIFEST
    try:
        value = json.loads(read_bytes(path))
        if value["version"] != VERSION:
            raise InputError(f"{path} has version {value['version']}; this umiak reads version {VERSION}")
        files = tuple(entry_of(entry, path) for entry in value["files"])
        manifest = Manifest(int(value["shards"]), value["layout"], value["source"], files)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise _foreign(path) from None
    if manifest.layout not in LAYOUTS or any(len(e.pieces) != (manifest.shards if e.split else 1) for e in files):
        raise _foreign(path)
    return manifest


def _foreign(path: Path) -> InputError:
    return InputError(f"{path} is not the manifest of a shard set; split the data again with --overwrite")


def entry_of(value: dict[str, Any], manifest: Path) -> Entry:
    """An entry of a manifest. Its path becomes one beside the config of whoever stages it: it must stay below that."""
    if not is_relative(value["path"]):
        raise InputError(
            f"{manifest} names the file {value['path']!r}, which is not a plain path inside the shard: do not use this data"
        )
    return Entry(**{**value, "pieces": tuple(Piece(**piece) for piece in value["pieces"])})


def directory(root: Path, layout: str, index: int) -> Path:
    return root / LAYOUTS[layout].format(index=index)


def locate(root: Path, index: int) -> Path:
    """The directory of a shard, in whichever layout it is there."""
    places = [directory(root, layout, index) for layout in LAYOUTS]
    found = next((place for place in places if place.is_dir()), None)
    if found is None:
        told = " nor ".join(str(place) for place in places)
        raise InputError(
            f"shard {index} is not there: neither {told} is a directory; split the data with umiak data split"
        )
    return found


def stage(root: Path, index: int, count: int, target: Path) -> int:
    """Copy shard `index` of `count` into `target`, and return its number of files. What has a manifest is checked against it."""
    manifest = read(root)
    if manifest is not None and manifest.shards != count:
        raise InputError(
            f"{root} is split into {manifest.shards} shards, but there are {count} trainers, and no sample may be left out: "
            f"split it again with --shards {count}"
        )
    source = locate(root, index)
    if manifest is None:
        names = [
            str(path.relative_to(source)) for path in sorted(source.rglob("*")) if path.is_symlink() or path.is_file()
        ]
        for name in names:
            _copy(_plain(root, source, name), target / name, None)
        return len(names)
    for entry in manifest.files:
        _copy(_plain(root, source, entry.path), target / entry.path, _piece(entry, index))
    return len(manifest.files)


def _plain(root: Path, shard: Path, name: str) -> Path:
    """A file of a shard, if it is there itself: a link could lead to any file that its reader may read."""
    path = shard / name
    if link := link_below(root, str(path.relative_to(root))):
        raise InputError(f"{link} is a symbolic link: a shard holds files; put the file itself there")
    return path


def verify(root: Path) -> Manifest:
    """Read everything: each file has the bytes that were written, and the shards together are the source, sample by sample."""
    manifest = read(root)
    if manifest is None:
        raise InputError(f"{root} has no {MANIFEST}: it was not written by umiak data split, or not to the end")
    shards = [directory(root, manifest.layout, index) for index in range(manifest.shards)]
    known = {entry.path for entry in manifest.files}
    for index, shard in enumerate(shards):
        for path in sorted(shard.rglob("*")):
            if (path.is_symlink() or path.is_file()) and str(path.relative_to(shard)) not in known:
                raise InputError(f"{path} is not in the manifest: remove it, or split again with --overwrite")
        for entry in manifest.files:
            _check(_plain(root, shard, entry.path), _piece(entry, index))
    for entry in manifest.files:
        if entry.split:
            _put_together(entry, [shard / entry.path for shard in shards])
    return manifest


def _piece(entry: Entry, index: int) -> Piece:
    return entry.pieces[index if entry.split else 0]


def _check(path: Path, piece: Piece) -> None:
    digest = hashlib.sha256()
    size = 0
    for chunk in _chunks(path):
        digest.update(chunk)
        size += len(chunk)
    _compare(path, piece, size, digest.hexdigest())


def _copy(source: Path, target: Path, piece: Piece | None) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    size = 0
    with atomic(target) as file:
        for chunk in _chunks(source):
            file.write(chunk)
            digest.update(chunk)
            size += len(chunk)
        if piece is not None:
            _compare(source, piece, size, digest.hexdigest())
    shutil.copymode(source, target)


def _compare(path: Path, piece: Piece, size: int, sha256: str) -> None:
    advice = "split the data again with --overwrite"
    if size != piece.bytes:
        raise InputError(f"{path} has {size:,} bytes where the manifest says {piece.bytes:,}; {advice}")
    if sha256 != piece.sha256:
        raise InputError(f"{path} is damaged: its SHA-256 is not the manifest's; {advice}")


def _chunks(path: Path) -> Iterator[bytes]:
    file: IO[bytes] | None = None
    at = 0

    def read_on() -> bytes:
        """The next bytes; after an error from a file that is opened anew, because the old handle may be stale."""
        nonlocal file
        try:
            if file is None:
                file = path.open("rb")
                file.seek(at)
            return file.read(CHUNK)
        except OSError:
            if file is not None:
                file.close()
            file = None
            raise

    try:
        while chunk := patiently(read_on, path):
            at += len(chunk)
            yield chunk
    except FileNotFoundError:
        raise InputError(f"{path} is missing, though the manifest names it; split the data again") from None
    finally:
        if file is not None:
            file.close()


def _put_together(entry: Entry, paths: list[Path]) -> None:
    """Deal the samples back from the shards in turn and compare with the checksum taken while cutting."""
    samples = [records(path, entry.header) for path in paths]
    turns = (samples[(entry.first + number) % len(samples)] for number in range(entry.samples))
    merged = (sample for turn in turns for sample in islice(turn, 1))
    digest, count = hashlib.sha256(), 0
    while batch := list(islice(merged, BATCH)):
        digest.update(b"".join(batch))
        count += len(batch)
    left = sum(1 for turn in samples for _ in turn)
    if left or count != entry.samples or digest.hexdigest() != entry.content:
        raise InputError(
            f"the shards of {entry.path} hold {count + left:,} samples that are not the {entry.samples:,} they were cut from; "
            "split the data again with --overwrite"
        )


def records(path: Path, header: bool = False) -> Iterator[bytes]:
    """The samples of one file, one by one, as the bytes that are compared."""
    if path.suffix == ".parquet":
        for _, row in parquet.rows(str(path)):
            yield row_bytes(row)
        return
    with formats.binary(path) as file:
        for batch in batches(file, formats.kind_or_text(str(path)) == ".csv"):
            yield from islice(batch, 1 if header else 0, None)
            header = False


def row_bytes(row: dict[str, Any]) -> bytes:
    return repr(row).encode()


def batches(file: IO[bytes], quoted: bool) -> Iterator[list[bytes]]:
    """The lines of a file, a few megabytes at a time; each ends with a newline. A `quoted` cell may hold line ends."""
    while lines := file.readlines(CHUNK):
        if quoted:
            lines = _records_of(lines, file)
        if not lines[-1].endswith(b"\n"):
            lines[-1] += b"\n"
        yield lines


def _records_of(lines: list[bytes], file: IO[bytes]) -> list[bytes]:
    """CSV lines put together where a quoted cell continues in the next line."""
    whole: list[bytes] = []
    begun = b""
    for line in lines:
        begun += line
        if begun.count(b'"') % 2 == 0:
            whole.append(begun)
            begun = b""
    while begun:
        line = file.readline()
        begun += line
        if not line or begun.count(b'"') % 2 == 0:
            whole.append(begun)
            break
    return whole
