"""The far end of `umiak output`, in a volume pod: lists a directory of the volume and sends files of it.

    python -m umiak.pod.files DIR

What comes in and goes out is umiak/contract/volume.py's. Of each file its bytes from `offset` up to `size` are sent, then the
SHA-256 of its first `size` bytes: a log may grow meanwhile, and the client has the first `offset` bytes already.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from umiak.contract import volume
from umiak.contract.volume import File, Wanted
from umiak.rundir import layout

CHUNK = 1 << 20
TOUCH_SECONDS = 10.0


def listing(root: Path) -> list[File]:
    """Every file with its size, those of checkpoints and half-written ones apart: they belong to the job."""
    found = []
    best = layout.linked_best(root)
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if path.is_file() and not path.is_symlink() and not any(part.startswith(".") for part in name.parts):
            status = path.stat()
            found.append(File(str(name), status.st_size, status.st_mtime, best is not None and path.parent == best))
    return found


def sent(root: Path, wanted: list[Wanted]) -> Iterator[bytes]:
    """What goes over the line."""
    inside = root.resolve()
    for each in wanted:
        path = (root / each.path).resolve()
        if not path.is_relative_to(inside):
            raise OSError(f"{each.path} is not inside the directory")
        digest = hashlib.sha256()
        at, size, offset = 0, each.size, each.offset
        with path.open("rb", buffering=0) as file:
            while at < size:
                chunk = file.read(min(CHUNK, size - at))
                if not chunk:
                    raise OSError(f"{each.path} became shorter while it was read; pull again")
                digest.update(chunk)
                if at + len(chunk) > offset:
                    yield chunk[max(0, offset - at) :]
                at += len(chunk)
        yield digest.digest()


def _awake(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The pod ends when nobody touches the file for a while."""
    touched, alive = 0.0, Path(volume.ALIVE)
    for chunk in chunks:
        if time.monotonic() - touched > TOUCH_SECONDS:
            touched = time.monotonic()
            if alive.exists():
                os.utime(alive)
        yield chunk


def main(directory: str) -> int:
    root = Path(directory)
    wanted = volume.read_request(sys.stdin.readline())
    try:
        if not root.is_dir():
            raise OSError(f"there is no {root.name!r} on the volume at {root.parent}")
        if wanted is None:
            print(volume.write_list(listing(root)), flush=True)
        else:
            with os.fdopen(1, "wb", buffering=0) as out:
                for chunk in _awake(sent(root, wanted)):
                    view = memoryview(chunk)
                    while view:
                        view = view[out.write(view) :]
    except OSError as error:
        print(f"umiak: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
