"""What a long file has told, kept in the user's cache as arrays: reading a million lines again takes seconds, this takes none.

A file that is damaged, of another version or of another file is none: then everything is read again.
"""

from __future__ import annotations

import contextlib
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from umiak import __version__
from umiak.page.columns import Columns
from umiak.page.history import History
from umiak.page.jsonlines import Place

LEAST_BYTES = 4 << 20
"""A shorter file is read faster than anybody notices."""
GROWTH = 1.25
"""Written again when the file has grown by so much."""
MOST_BYTES = 1 << 30
"""Of all such files; the oldest go."""
PLAIN = ("passes", "spans", "changes", "baseline", "failed", "workers", "started", "updated", "finished", "checkpoint",
         "lost", "unreadable", "_pauses", "_restarted")  # fmt: skip


def save(file: Path, history: History, place: Place) -> None:
    """What cannot be written is no harm."""
    arrays: dict[str, Any] = {}
    for name, table in _tables(history).items():
        arrays |= {f"{name}/{column}": table[column] for column in table.names}
    rest = {name: getattr(history, name) for name in PLAIN}
    rest["newest_work"] = list(history.newest_work.values())
    rest["newest_processes"] = list(history.newest_processes.values())
    about = json.dumps({"version": __version__, "place": place.to_json(), "rest": rest})
    new = file.with_name(f".{os.getpid()}.{file.name}")
    with contextlib.suppress(OSError, ValueError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new.touch(0o600)
        with new.open("wb") as out:
            np.savez(out, about=np.frombuffer(about.encode(), np.uint8), **arrays)
        new.replace(file)
        _prune(file.parent)


def load(file: Path) -> tuple[History, Place] | None:
    try:
        with np.load(file, allow_pickle=False) as found:
            about = json.loads(found["about"].tobytes())
            if about["version"] != __version__:
                return None
            return _restored(about["rest"], found), Place(**about["place"])
    except (OSError, ValueError, KeyError, TypeError, EOFError, RecursionError, zipfile.BadZipFile):
        return None


def _tables(history: History) -> dict[str, Columns]:
    found = {"rounds": history.rounds}
    found |= {f"work/{worker}": table for worker, table in history.work.items()}
    found |= {f"processes/{worker}/{role}": table for (worker, role), table in history.processes.items()}
    return found


def _restored(rest: Mapping[str, Any], found: Mapping[str, Any]) -> History:
    history = History()
    for name in PLAIN:
        setattr(history, name, rest[name])
    history.checkpoint = tuple(rest["checkpoint"]) if rest["checkpoint"] else None
    history._restarted = tuple(rest["_restarted"]) if rest["_restarted"] else None
    history._pauses = [(start, end) for start, end in rest["_pauses"]]
    history.newest_work = {each["worker"]: each for each in rest["newest_work"]}
    history.newest_processes = {(each["worker"], each["role"]): each for each in rest["newest_processes"]}
    for name in dict.fromkeys(key.rpartition("/")[0] for key in found if "/" in key):
        kind, _, which = name.partition("/")
        table = _table(history, kind, which)
        table.append({column: found[f"{name}/{column}"] for column in table.names})
    return history


def _table(history: History, kind: str, which: str) -> Columns:
    if kind == "work":
        return history.work_of(int(which))
    if kind == "processes":
        worker, _, role = which.partition("/")
        return history.processes_of(int(worker), role)
    return history.rounds


def _prune(directory: Path) -> None:
    files = sorted(directory.glob("*.npz"), key=lambda each: each.stat().st_mtime, reverse=True)
    total = 0
    for each in files:
        total += each.stat().st_size
        if total > MOST_BYTES:
            each.unlink(missing_ok=True)
