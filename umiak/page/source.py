"""metrics.jsonl or events.jsonl of a run, and what it has told so far: read on, or from the start if it was replaced."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from pathlib import Path

from umiak.page import kept, safe
from umiak.page.history import History
from umiak.page.jsonlines import Place, is_same, new_lines

Signature = tuple[int, int, int]
"""A file at a moment: its inode, size and time. Whoever writes changes one of them."""


def signature(path: Path) -> Signature | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


class Source:
    def __init__(self, path: Path, cache: Path | None = None) -> None:
        """`cache` is a file that keeps what a long one has told (kept.py)."""
        self.path, self.history, self.place, self.cache = path, History(), Place(), cache
        self._seen: Signature | None = None
        self._kept = 0
        self.is_behind = False

    def refresh(self, roots: Sequence[Path], seconds: float = math.inf) -> bool:
        """Whether something has changed. What takes longer than so many seconds is read next time: `is_behind`."""
        now, until = signature(self.path), time.monotonic() + seconds
        if now == self._seen and not self.is_behind:
            return False
        self.is_behind = False
        try:
            with safe.opened(self.path, roots) as file:
                self._remember(os.fstat(file.fileno()).st_size)
                changed = not is_same(file, self.place)
                if changed:
                    # New, cut off, or written anew after a restart.
                    self.history, self.place = History(), Place()
                for events in new_lines(file, self.place):
                    self.history.add(events)
                    changed = True
                    if time.monotonic() > until:
                        self.is_behind = True
                        break
        except OSError:
            changed = self.place.offset > 0
            self.history, self.place = History(), Place()
        self._seen = now
        self._keep()
        return changed

    def _remember(self, size: int) -> None:
        """Take over what an earlier server has read, if this one has read nothing."""
        if self.cache and not self.place.offset and size >= kept.LEAST_BYTES and (known := kept.load(self.cache)):
            self.history, self.place = known
            self._kept = self.place.offset

    def _keep(self) -> None:
        if self.cache and not self.is_behind and self.place.offset >= max(kept.LEAST_BYTES, kept.GROWTH * self._kept):
            kept.save(self.cache, self.history, self.place)
            self._kept = self.place.offset

    @property
    def damaged(self) -> int:
        """Lines that could not be understood."""
        return self.place.damaged + self.history.unreadable

    @property
    def bytes(self) -> int:
        """In memory; 0 if nothing was read."""
        return self.history.bytes if self.place.offset else 0
