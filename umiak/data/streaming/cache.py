"""A bounded disk cache of what was read from S3, for all trainers of a machine and all passes. Knows ranges of bytes, not rows.

What is read back is checked. When the cache is full, what nobody has used since this process began makes room, the oldest
first. If that is not enough, the new range is not kept: in a pass over more data than fit, a cache that always replaced the
oldest would have forgotten each range by the time it is wanted again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from umiak.errors import InputError
from umiak.files import temporary_name

DIGEST = 16
LOCK = "lock"
_UNITS = {"K": 1, "M": 2, "G": 3, "T": 4}
log = logging.getLogger("umiak.data")


def directory() -> Path:
    """Where everything is kept that this machine can make again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "umiak" / "data"


def size_of(text: str) -> int:
    """The bytes of a size such as 50GB or 512MiB."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT])(i?)B\s*", text)
    if match is None:
        raise InputError(f'stream(cache=…) must be a size like "50GB" or "500MB", not {text!r}')
    return int(float(match[1]) * (1024 if match[3] else 1000) ** _UNITS[match[2]])


class Cache:
    def __init__(self, directory: Path, limit: int) -> None:
        self._directory, self._limit = directory, limit
        self._began = time.time()
        self._is_full = False

    def get(self, key: str) -> bytes | None:
        """What was put there under this key; None if it is not there, or not as it was."""
        path = self._path(key)
        try:
            content = path.read_bytes()
            os.utime(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            log.warning("cannot read %s (%s); fetching it again", path, error.strerror)
            return None
        data = content[DIGEST:]
        if _digest(data) == content[:DIGEST]:
            return data
        log.warning("%s is damaged; fetching it again", path)
        with contextlib.suppress(OSError):
            path.unlink()
        return None

    def put(self, key: str, data: bytes) -> None:
        """Keep it, if there is room. A disk that fails costs the copy and nothing else."""
        if self._is_full:
            return
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._locked():
                # A reservation that is never filled makes the count too high, which the next look at the files corrects.
                used = self._counted() + DIGEST + len(data)
                if used > self._limit:
                    used = self._make_room(DIGEST + len(data)) + DIGEST + len(data)
                self._is_full = used > self._limit
                if self._is_full:
                    log.info("the cache %s is full; what is left of the data is fetched in every pass", self._directory)
                    return
                (self._directory / LOCK).write_text(str(used))
                temporary = temporary_name(path)
                temporary.write_bytes(_digest(data) + data)
                temporary.replace(path)
        except OSError as error:
            self._is_full = True
            log.warning("cannot keep data in %s (%s); they are fetched in every pass", self._directory, error.strerror)

    def _path(self, key: str) -> Path:
        name = hashlib.sha256(key.encode()).hexdigest()
        return self._directory / name[:2] / name[2:34]

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._directory / LOCK).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _counted(self) -> int:
        text = (self._directory / LOCK).read_text()
        return int(text) if text.isdigit() else self._limit

    def _make_room(self, wanted: int) -> int:
        """Delete what this run does not use until there is room; the bytes that are left."""
        entries = [(each.stat(), each) for each in self._directory.glob("*/*")]
        used = sum(status.st_size for status, _ in entries)
        for status, path in sorted(entries, key=lambda entry: entry[0].st_mtime):
            if used + wanted <= self._limit or status.st_mtime >= self._began:
                break
            path.unlink(missing_ok=True)
            used -= status.st_size
        return used


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST).digest()
