"""All runs below the named directories: found, and read again when a file of theirs has changed.

What the list says of a run is kept in the user's cache with the signatures of its files, so that a new server need not read them.
What was read of a run that nobody looks at is forgotten when it takes too much memory.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from umiak import system
from umiak.errors import InputError
from umiak.page.answers import Indexing, Run
from umiak.page.cache import Cache
from umiak.page.cluster import ClusterJob
from umiak.page.cost import Price
from umiak.page.rundirectory import Locked, RunDirectory
from umiak.page.saved import printable
from umiak.rundir import layout

MARKS = {layout.METRICS, layout.EVENTS, layout.RUN}
DEEPEST = 12
SCAN_SECONDS = 2.0
SCAN_REST = 10
"""Looking for new directories takes at most a tenth of the time."""
READ_SECONDS = 0.25
MOST_BYTES = 96 << 20
"""Of curves in memory."""
Jobs = Callable[[Path], ClusterJob | None]


class Index:
    """Only one thread at a time looks; nobody looks while nobody asks."""

    def __init__(
        self, named: Sequence[Path], expected: bool = False, price: Price | None = None, jobs: Jobs | None = None,
        cache: Path | None = None, notes: Callable[[], list[str]] = list, titles: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """`expected`: the one directory that is named is a run, even if it is not there yet. `jobs` says which directory belongs
        to a job of a cluster; without `cache`, nothing is kept for the next server. `notes` are more problems, `titles` what the
        directories are called."""
        for path in [] if expected else named:
            if not path.is_dir():
                raise InputError(f"{path} is not a directory: name one that holds runs")
            if not os.access(path, os.R_OK | os.X_OK):
                raise InputError(f"{path} cannot be read: change its permissions, or name another directory")
        self.roots = [path.resolve() for path in named]
        self.titles = list(titles) or [printable(root) for root in self.roots]
        self.price, self.jobs, self._notes, self._place = price, jobs, notes, cache
        self.patience = READ_SECONDS
        """Seconds for one file; a longer one is read bit by bit, and shown as far as it was read."""
        self.expected_id = self._made(self.roots[0], self.roots[0]).id if expected else None
        self._problems: list[str] = []
        self.indexing: Indexing | None = None
        self.lock = threading.RLock()
        self.runs: dict[str, Run] = {}
        self._looking = threading.Lock()
        self._cache = Cache(cache, self.roots, price)
        self._found: dict[str, RunDirectory] = {}
        self._scan_at = 0.0
        self._used: dict[str, float] = {}
        self._live: set[str] = set()

    def _made(self, path: Path, root: Path) -> RunDirectory:
        made = RunDirectory(path, root, self.roots, self.price, self._place)
        made.job = self.jobs(path) if self.jobs else None
        return made

    def refresh(self) -> None:
        """Look for directories that came and went, if it is time, and at the files of those that may have changed."""
        with self._looking:
            begun = time.monotonic()
            scanned = begun >= self._scan_at
            if scanned:
                if not self._scan_at:
                    self.indexing = {"done": 0, "found": 0}
                self._scan()
            locked = system.locked_files()
            # Between two scans, only what runs or is looked at can be expected to change.
            chosen = [
                (each, found)
                for each, found in self._found.items()
                if scanned or each in self._used or each in self._live
            ]
            for done, (each, found) in enumerate(chosen):
                if scanned and len(self.runs) < len(self._found):
                    self.indexing = {"done": done, "found": len(chosen)}
                self._look_at(each, found, locked)
            self.indexing = None
            self._forget()
            if scanned:
                self._cache.save(self._found)
                self._scan_at = time.monotonic() + max(SCAN_SECONDS, SCAN_REST * (time.monotonic() - begun))

    def _scan(self) -> None:
        problems: list[str] = []
        here: dict[str, RunDirectory] = {}
        for root in self.roots:
            for path in [root] if self.expected_id else below(root, problems):
                made = self._made(path, root)
                here[made.id] = self._found.get(made.id, made)
                if self.indexing:
                    self.indexing = {"done": 0, "found": len(here)}
        self._problems, self._found = problems, here
        self._live &= set(here)
        for gone in [each for each in self.runs if each not in here]:
            del self.runs[gone]

    def _look_at(self, name: str, found: RunDirectory, locked: Locked) -> None:
        if self.jobs:
            found.job = self.jobs(found.path)
        lives = found.job is not None or found.is_locked(locked)
        (self._live.add if lives else self._live.discard)(name)
        known = None if lives else self._cache.find(found)
        if known is not None and not found.bytes:
            self.runs[name] = known
            return
        with self.lock:
            found.refresh(self.patience)
            self.runs[name] = found.run(locked)
        if found.is_behind:
            self._live.add(name)
        elif not lives:
            self._cache.keep(found, self.runs[name])
        if name not in self._used and name not in self._live:
            found.forget_small()

    def _forget(self) -> None:
        """What was looked at longest ago, if there is too much."""
        held = sorted(self._found, key=lambda each: self._used.get(each, 0.0), reverse=True)
        total = 0
        for each in held:
            size = self._found[each].bytes
            total += size
            if size and total > MOST_BYTES and each not in held[:1]:
                with self.lock:
                    self._found[each].forget()

    @property
    def problems(self) -> list[str]:
        return [*self._problems, *self._notes()]

    def all(self) -> list[RunDirectory]:
        return list(self._found.values())

    def find(self, name: str) -> RunDirectory | None:
        """To look at it: it stays in memory longer than others."""
        found = self._found.get(name)
        if found is not None:
            self._used.pop(name, None)
            self._used[name] = time.monotonic()
            while len(self._used) > 8:
                del self._used[next(iter(self._used))]
        return found


def below(root: Path, problems: list[str]) -> Iterator[Path]:
    """The run directories below a directory, or itself. Links are not followed."""
    waiting = [(str(root), 0)]
    while waiting:
        path, depth = waiting.pop()
        try:
            with os.scandir(path) as entries:
                listed = list(entries)
        except OSError as error:
            problems.append(f"{printable(Path(path))}: {error.strerror}")
            continue
        if any(entry.name in MARKS for entry in listed):
            yield Path(path)
            continue
        if depth < DEEPEST:
            inner = [e for e in listed if not e.name.startswith(".") and e.is_dir(follow_symlinks=False)]
            waiting += [(entry.path, depth + 1) for entry in inner if entry.name != "node_modules"]
