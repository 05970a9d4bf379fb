"""Files that are whole or not there, on storage that may fail for a while.

Three kinds of trouble are kept apart. What a user can mend (no space, no permission, no such directory) is an InputError at
once. Every other error of the system says nothing about the file: the work is repeated for a while, then a StorageError
asks for another try later. Only what was read and is not what was written is damage; those who read decide that.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import IO, Any, TypeGuard, TypeVar

from umiak.errors import InputError, StorageError, UmiakError

CHUNK = 8 << 20
STORAGE_SECONDS = 60.0
"""How long work on a file is repeated before it counts as failed."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
SETTLED_BYTES = 32 << 20
"""Written files go to the disk in parts of this size. A part is kept until it is there, to be written again if need be."""
MENDABLE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP),
}
"""Errors that stay until somebody changes something."""
log = logging.getLogger("umiak.files")

Result = TypeVar("Result")


def is_full(error: BaseException) -> TypeGuard[OSError]:
    """Whether there was no space left on a disk."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def is_of_volume(error: BaseException) -> TypeGuard[OSError]:
    """Whether an error that nobody expected is the disk's or volume's: full, or failing for a while."""
    return is_full(error) or (isinstance(error, OSError) and error.errno in (errno.EIO, errno.ESTALE, errno.EREMOTEIO))


def is_mendable(error: OSError) -> bool:
    """Whether a user must do something about it; all others may pass by themselves."""
    return error.errno in MENDABLE


def disk_error(error: OSError, path: Path, doing: str = "write") -> UmiakError:
    """What an error of the system means for whoever reads or writes a file: an InputError only if a user can mend it."""
    if is_full(error):
        return InputError(f"no space left on the disk while writing {path}: free some, then run again with --resume")
    text = f"cannot {doing} {path}: {error.strerror or error}"
    return InputError(text) if is_mendable(error) else StorageError(f"{text}; try again when the disk or volume works")


def patiently(work: Callable[[], Result], path: Path, doing: str = "read", seconds: float | None = None) -> Result:
    """Repeat `work` while the system fails at it, each time after a longer pause, for STORAGE_SECONDS at most.

    What a missing file means is for the caller to say: a FileNotFoundError is passed on as it is.
    """
    limit = STORAGE_SECONDS if seconds is None else seconds
    begun, pause = 0.0, FIRST_PAUSE
    while True:
        try:
            result = work()
        except FileNotFoundError:
            raise
        except OSError as error:
            now = time.monotonic()
            begun = begun or now
            if is_mendable(error) or error.errno is None:
                raise disk_error(error, path, doing) from error
            if now + pause - begun > limit:
                text = f"cannot {doing} {path}: {error.strerror}, for {now - begun:.0f} s"
                raise StorageError(f"{text}; try again when the disk or volume works") from error
            if pause == FIRST_PAUSE:
                log.warning("cannot %s %s: %s; trying again for %.0f s", doing, path, error.strerror, limit)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        else:
            if begun:
                log.warning("could %s %s after %.1f s", doing, path, time.monotonic() - begun)
            return result


def temporary_name(path: Path) -> Path:
    """A name beside `path` that nobody else uses: process ids are not enough, containers that share a volume share them."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}")


class Writer:
    """A file being written under another name. What is not known to be on the disk is kept, to be written again."""

    def __init__(self, path: Path, mode: int) -> None:
        self.path, self.temporary, self._mode = path, temporary_name(path), mode
        self._file: IO[bytes] | None = None
        self._kept: list[bytes] = []
        self._keeps = self._settled = 0

    def open(self) -> None:
        """Begin, so that what cannot be written is known before it is computed."""
        self._patiently(self._open)

    def write(self, data: bytes | memoryview) -> int:
        part = bytes(data)
        self._kept.append(part)
        self._keeps += len(part)
        if self._keeps >= SETTLED_BYTES:
            start = self._settled
            self._patiently(self._settle)
            assert self._file is not None
            forget(self._file, start, self._settled - start)
        return len(part)

    def tell(self) -> int:
        return self._settled + self._keeps

    def publish(self) -> None:
        """See everything on the disk and give the file its name."""
        self._patiently(self._settle)
        self._patiently(self._rename)
        self.close()

    def discard(self) -> None:
        self.close()
        with contextlib.suppress(OSError):
            self.temporary.unlink()

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # its buffer may hold what could not be written
                self._file.close()
            self._file = None

    def _patiently(self, work: Callable[[], None]) -> None:
        try:
            patiently(work, self.path, "write")
        except FileNotFoundError as error:
            # Directories that a user names are looked for before; this one was made by us, and another took it away.
            raise StorageError(f"cannot write {self.path}: its directory is gone") from error

    def _settle(self) -> None:
        """Write what is kept, and have it on the disk.

        If that fails it is written again, from the last place known to be on the disk: the system drops pages that it could
        not write, so an fsync that succeeds the second time proves nothing.
        """
        self._open()
        file = self._file
        assert file is not None
        try:
            file.seek(self._settled)
            file.truncate()
            file.writelines(self._kept)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            self.close()
            raise
        self._settled += self._keeps
        self._kept, self._keeps = [], 0

    def _open(self) -> None:
        if self._file is not None:
            return
        if self._settled:
            self._file = self.temporary.open("r+b", buffering=1 << 20)
            return
        with contextlib.suppress(OSError):
            self.temporary.unlink()
        self.temporary = temporary_name(self.path)
        descriptor = os.open(self.temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, self._mode)
        self._file = os.fdopen(descriptor, "r+b", buffering=1 << 20)

    def _rename(self) -> None:
        assert self._file is not None
        try:
            self.temporary.replace(self.path)
        except FileNotFoundError:
            # A rename can be done and its answer be lost.
            if not os.path.samestat(os.fstat(self._file.fileno()), self.path.stat()):
                raise
        # Unlike a file's pages, the entry is not lost by a failed fsync: the next one tries to write it again.
        sync_directory(self.path.parent)


@contextlib.contextmanager
def atomic(path: Path, mode: int = 0o666) -> Iterator[Writer]:
    """Write to a temporary name beside `path`; renamed into place, safely on disk, when the block ends well."""
    writer = Writer(path, mode)
    try:
        writer.open()
        yield writer
        writer.publish()
    except BaseException:
        writer.discard()
        raise


def write_json(path: Path, value: Any) -> None:
    with atomic(path) as file:
        file.write(json.dumps(value, indent=1, sort_keys=True).encode() + b"\n")


def append(path: Path, data: bytes) -> None:
    """Add to the end of a file. What a failed try has left there is cut off by the next."""
    before: int | None = None

    def add() -> None:
        nonlocal before
        with path.open("ab", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            before = size if before is None else before
            if size != before:
                file.truncate(before)
            left = memoryview(data)
            while left:
                left = left[file.write(left) :]

    try:
        patiently(add, path, "write")
    except FileNotFoundError as error:
        raise StorageError(f"cannot write {path}: its directory is gone") from error


def read_bytes(path: Path) -> bytes:
    """A small file; a FileNotFoundError if there is none."""
    return patiently(path.read_bytes, path)


def exists(path: Path) -> bool:
    """Whether it is there: unlike Path.exists, a volume that fails is not taken for a missing file."""

    def look() -> bool:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.stat()
            return True
        return False

    return patiently(look, path)


def names_in(directory: Path) -> list[str]:
    """What a directory holds, sorted; nothing if it is none. Unlike Path.glob, it does not hide that a volume fails."""

    def look() -> list[str]:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return sorted(path.name for path in directory.iterdir())
        return []

    return patiently(look, directory)


def make_directory(path: Path, doing: str = "make the directory") -> None:
    """A directory and those above it, with their entries on the disk."""

    def make() -> None:
        missing = [each for each in (path, *path.parents) if not each.is_dir()]
        for each in reversed(missing):
            each.mkdir(exist_ok=True)
            sync_directory(each.parent)

    try:
        patiently(make, path, doing)
    except FileNotFoundError as error:
        raise StorageError(f"cannot {doing} {path}: {error.filename} is gone") from error


def check_target(path: Path) -> None:
    """Refuse a file to write that a user named in a directory that is not there."""
    if not path.absolute().parent.is_dir():
        raise InputError(f"there is no directory {path.parent} to write {path.name} to")


def sync_directory(path: Path) -> None:
    try:
        fd = os.open(path, os.O_RDONLY)
    except PermissionError:
        return  # a directory can be writable and yet not be opened; then its entries reach the disk a little later
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def forget(file: IO[bytes] | FileIO, start: int, count: int) -> None:
    """Have the system keep no copy of bytes that are on the disk.

    The memory such copies would take is needed for rows, and on a virtual machine new memory can be slower than the disk.
    """
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno(), start, count, os.POSIX_FADV_DONTNEED)
