"""What the list says of runs, kept for the next server in the user's cache. A damaged or foreign file there is no cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from umiak import __version__
from umiak.page.answers import Run
from umiak.page.cost import Price
from umiak.page.rundirectory import RunDirectory
from umiak.page.source import Signature

KEYS = set(Run.__annotations__)


def directory() -> Path:
    """Where it lies unless somebody says otherwise."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "umiak" / "page"


class Cache:
    def __init__(self, place: Path | None, roots: Sequence[Path], price: Price | None) -> None:
        key = json.dumps([__version__, sorted(map(os.fsencode, roots), key=repr), price], default=repr)
        self._file = place / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json" if place else None
        self._entries: dict[str, tuple[list[Signature | None], Run]] = {}
        self._changed = False
        self._load()

    def _load(self) -> None:
        try:
            content: Any = json.loads(self._file.read_bytes()) if self._file else {}
            for name, (signatures, run) in content.items():
                if set(run) == KEYS:
                    self._entries[name] = ([tuple(each) if each else None for each in signatures], cast(Run, run))
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            self._entries = {}

    def find(self, run: RunDirectory) -> Run | None:
        """What was said of it, if none of its files has changed since."""
        known = self._entries.get(run.id)
        return known[1] if known is not None and known[0] == run.signatures() else None

    def keep(self, run: RunDirectory, said: Run) -> None:
        entry = (run.signatures(), said)
        if self._entries.get(run.id) != entry:
            self._entries[run.id] = entry
            self._changed = True

    def save(self, there: Mapping[str, object]) -> None:
        """If something is new. What cannot be written is no harm: the next server reads the runs again."""
        self._entries = {name: entry for name, entry in self._entries.items() if name in there}
        if self._file is None or not self._changed:
            return
        self._changed = False
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            new = self._file.with_name(f".{self._file.name}.{os.getpid()}")
            new.touch(0o600)
            new.write_text(json.dumps(self._entries))
            new.replace(self._file)
