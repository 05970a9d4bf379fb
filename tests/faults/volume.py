"""A file system that passes everything on to a directory and misbehaves as it is told: errors, hangs, slow answers.

Runs in a process of its own, started by `FaultyVolume`. What to do wrong is in a file outside of it, which is looked at before
every operation; what was done wrong is written down, so that a test can tell that its fault was met.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import mfusepy

POLL_SECONDS = 0.05
READING = ("open", "read", "getattr", "readdir", "access", "statfs", "readlink")
WRITING = (
    *("create", "write", "truncate", "flush", "fsync", "fsyncdir", "rename", "link", "symlink", "mkdir"),
    *("unlink", "rmdir", "chmod", "chown", "utimens"),
)


class Volume(mfusepy.Operations):  # type: ignore[misc]
    use_ns = True

    def __init__(self, source: Path, faults: Path, met: Path) -> None:
        self.source, self.faults = source, faults
        self._met = os.open(met, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._read: tuple[int, list[dict[str, Any]]] = (-1, [])

    def misbehave(self, operation: str, path: str) -> None:
        while (fault := self._fault(operation, path)) is not None:
            os.write(self._met, f"{fault['kind']} {operation} {path}\n".encode())
            if fault["kind"] == "error":
                raise mfusepy.FuseOSError(getattr(errno, fault["errno"]))
            if fault["kind"] == "slow":
                time.sleep(fault["seconds"])
                return
            while self._fault(operation, path) == fault:
                time.sleep(POLL_SECONDS)

    def _fault(self, operation: str, path: str) -> dict[str, Any] | None:
        """The first fault that this operation meets now."""
        changed = self.faults.stat().st_mtime_ns
        if changed != self._read[0]:
            self._read = changed, json.loads(self.faults.read_text())
        for fault in self._read[1]:
            if operation in (fault["operations"] or (operation,)) and fnmatch(path, fault["paths"]):
                return fault
        return None

    def _at(self, path: str) -> str:
        return f"{self.source}{path}"

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        found = os.lstat(self._at(path))
        times = {name: getattr(found, f"{name}_ns") for name in ("st_atime", "st_ctime", "st_mtime")}
        names = ("st_gid", "st_mode", "st_nlink", "st_size", "st_uid", "st_blocks")
        return times | {name: getattr(found, name) for name in names}

    def readdir(self, path: str, fh: int) -> Iterator[str]:
        yield from (".", "..", *os.listdir(self._at(path)))  # noqa: PTH208

    def access(self, path: str, mode: int) -> None:
        if not os.access(self._at(path), mode):
            raise PermissionError(errno.EACCES, "access")

    def open(self, path: str, flags: int) -> int:
        return os.open(self._at(path), flags)

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        return os.open(self._at(path), os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        return os.pwrite(fh, data, offset)

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        os.truncate(self._at(path) if fh is None else fh, length)

    def flush(self, path: str, fh: int) -> None:
        pass

    def fsync(self, path: str, datasync: int, fh: int) -> None:
        os.fsync(fh)

    def fsyncdir(self, path: str, datasync: int, fh: int) -> None:
        pass

    def release(self, path: str, fh: int) -> None:
        os.close(fh)

    def rename(self, old: str, new: str) -> None:
        os.rename(self._at(old), self._at(new))  # noqa: PTH104

    def link(self, target: str, source: str) -> None:
        os.link(self._at(source), self._at(target))

    def symlink(self, target: str, source: str) -> None:
        os.symlink(source, self._at(target))  # noqa: PTH211

    def readlink(self, path: str) -> str:
        return os.readlink(self._at(path))  # noqa: PTH115

    def mkdir(self, path: str, mode: int) -> None:
        os.mkdir(self._at(path), mode)  # noqa: PTH102

    def rmdir(self, path: str) -> None:
        os.rmdir(self._at(path))  # noqa: PTH106

    def unlink(self, path: str) -> None:
        os.unlink(self._at(path))  # noqa: PTH108

    def chmod(self, path: str, mode: int) -> None:
        os.chmod(self._at(path), mode)  # noqa: PTH101

    def chown(self, path: str, uid: int, gid: int) -> None:
        os.chown(self._at(path), uid, gid)

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> None:
        os.utime(self._at(path), ns=times)

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._at(path))
        names = (
            "f_bavail",
            "f_bfree",
            "f_blocks",
            "f_bsize",
            "f_favail",
            "f_ffree",
            "f_files",
            "f_frsize",
            "f_namemax",
        )
        return {name: getattr(found, name) for name in names}


def _may_fail(operation: str) -> Callable[..., Any]:
    """An operation of the volume that meets its faults first."""
    well: Callable[..., Any] = getattr(Volume, operation)

    @functools.wraps(well)
    def call(volume: Volume, path: str, *args: Any) -> Any:
        volume.misbehave(operation, path)
        return well(volume, path, *args)

    return call


for _name in (*READING, *WRITING):
    setattr(Volume, _name, _may_fail(_name))


def main(source: str, mountpoint: str, faults: str, met: str) -> None:
    volume = Volume(Path(source), Path(faults), Path(met))
    # Nothing is remembered by the kernel: every look at a file meets the faults of its moment.
    mfusepy.FUSE(volume, mountpoint, foreground=True, attr_timeout=0, entry_timeout=0, fsname="umiak-faulty")


if __name__ == "__main__":
    main(*sys.argv[1:])
