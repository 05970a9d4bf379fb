"""All runs below the named directories: found, and read again when a file of theirs has changed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from umiak import system
from umiak.errors import InputError
from umiak.page.answers import Run
from umiak.page.rundirectory import RunDirectory
from umiak.rundir import layout

MARKS = {layout.METRICS, layout.EVENTS, layout.RUN}
DEEPEST = 12


class Index:
    """Only one thread at a time looks; nobody looks while nobody asks."""

    def __init__(self, named: Sequence[Path], expected: bool = False) -> None:
        """`expected`: the one directory that is named is a run, even if it is not there yet."""
        for path in [] if expected else named:
            if not path.is_dir():
                raise InputError(f"{path} is no directory: name one that holds runs")
            if not os.access(path, os.R_OK | os.X_OK):
                raise InputError(f"{path} cannot be read: change its permissions, or name another directory")
        self.roots = [path.resolve() for path in named]
        self.expected_id = RunDirectory(self.roots[0], self.roots[0], self.roots).id if expected else None
        self.problems: list[str] = []
        self.lock = threading.Lock()
        self._found: dict[str, RunDirectory] = {}
        self.runs: dict[str, Run] = {}

    def refresh(self) -> tuple[list[Run], list[str]]:
        """The runs that have changed, and the ids of those that are gone."""
        with self.lock:
            self.problems = []
            here = {found.id: found for root in self.roots for found in self._below(root)}
            gone = [each for each in self._found if each not in here]
            self._found = {each: self._found.get(each, found) for each, found in here.items()}
            locked = system.locked_files()
            before, self.runs = self.runs, {}
            for each, found in self._found.items():
                found.refresh()
                self.runs[each] = found.run(locked)
            return [run for each, run in self.runs.items() if before.get(each) != run], gone

    def all(self) -> list[RunDirectory]:
        return list(self._found.values())

    def find(self, name: str) -> RunDirectory | None:
        return self._found.get(name)

    def _below(self, root: Path) -> Iterator[RunDirectory]:
        if self.expected_id:
            yield RunDirectory(root, root, self.roots)
            return
        waiting = [(root, 0)]
        while waiting:
            path, depth = waiting.pop()
            try:
                with os.scandir(path) as entries:
                    listed = list(entries)
            except OSError as error:
                self.problems.append(f"{path}: {error.strerror}".encode(errors="replace").decode())
                continue
            if any(entry.name in MARKS for entry in listed):
                yield RunDirectory(path, root, self.roots)
                continue
            if depth < DEEPEST:
                below = [e for e in listed if not e.name.startswith(".") and e.is_dir(follow_symlinks=False)]
                waiting += [(Path(entry.path), depth + 1) for entry in below if entry.name != "node_modules"]
