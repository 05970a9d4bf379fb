"""One run directory, read again and again while it grows: what the list says of it, and everything else."""

from __future__ import annotations

import hashlib
import json
import math
import re
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from umiak.errors import UmiakError
from umiak.page import safe
from umiak.page.answers import AtRisk, Checkpoint, Command, Config, Detail, Log, Metric, Run, Snapshot, State
from umiak.page.curves import Curves
from umiak.page.history import History, number
from umiak.page.jsonlines import Place, is_same, new_lines
from umiak.page.masking import masked
from umiak.rundir import inspection, layout

EVENTS = "events.jsonl"
SILENT_SECONDS = 60.0
_PASS = re.compile(re.escape(layout.PASS) + r"(\d{5})")
_LOGS = (
    (layout.TRAINER_LOG, "train", "trainer"),
    (layout.SERVER_LOG, "server", "server"),
    (layout.WORKER_LOG, "worker", "supervisor"),
)


class Source:
    """One of the two files, and what it has told so far."""

    def __init__(self, path: Path) -> None:
        self.path, self.history, self.place = path, History(), Place()

    def refresh(self, roots: Sequence[Path]) -> bool:
        """Whether something has changed."""
        try:
            with safe.opened(self.path, roots) as file:
                changed = not is_same(file, self.place)
                if changed:
                    # New, cut off, or written anew after a restart.
                    self.history, self.place = History(), Place()
                for events in new_lines(file, self.place):
                    self.history.add(events)
                    changed = True
                return changed
        except OSError:
            changed = self.place.offset > 0
            self.history, self.place = History(), Place()
            return changed


class RunDirectory:
    def __init__(self, path: Path, root: Path, roots: Sequence[Path]) -> None:
        self.path, self.roots = path, roots
        self.id = hashlib.sha256(str(path).encode(errors="surrogateescape")).hexdigest()[:16]
        name = str(path.relative_to(root)) if path != root else path.name
        self.name = name.encode(errors="replace").decode()
        self.metrics, self.events = Source(path / layout.METRICS), Source(path / EVENTS)

    def refresh(self) -> bool:
        return self.metrics.refresh(self.roots) | self.events.refresh(self.roots)

    @property
    def curves(self) -> Curves:
        return Curves(self.metrics.history, self.events.history)

    def _json(self, name: str) -> dict[str, Any]:
        try:
            value = json.loads(safe.read(self.path / name, self.roots) or b"{}")
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    def run(self, locked: set[tuple[int, int]]) -> Run:
        told, metrics = self.events.history, self.metrics.history
        passes = self.curves.passes
        rounds = told.rounds if len(told.rounds) else metrics.rounds
        started = number(told.started) or number(metrics.started)
        updated = number(told.updated) or number(metrics.updated) or self._modified()
        lasted = updated - started if started and updated else sum(each["seconds"] for each in passes) or None
        damaged = self.metrics.place.damaged + self.events.place.damaged + told.unreadable + metrics.unreadable
        problem = told.failure["cause"] if told.failure else None
        if problem is None and damaged:
            problem = f"{damaged} damaged lines were passed over"
        workers = told.workers or self._json(layout.RUN).get("workers") or len(self._nodes()) or None
        return {
            "id": self.id,
            "name": self.name,
            "place": str(self.path).encode(errors="replace").decode(),
            "source": "directory",
            "state": self._state(locked, updated),
            "problem": masked(problem) if problem else None,
            "started": started,
            "updated": updated,
            "seconds": lasted,
            "passes": len(passes),
            "round": int(rounds["round"][-1]) if len(rounds) else None,
            "samples": sum(each["samples"] for each in passes) or None,
            "samplesPerSecond": number(float(rounds["samplesPerSecond"][-1])) if len(rounds) else None,
            "workers": workers if isinstance(workers, int) else None,
            "metric": self._metric(),
            "dollars": None,
        }

    def _state(self, locked: set[tuple[int, int]], updated: float | None) -> State:
        ended = self.events.history.ended_as
        try:
            lock = (self.path / layout.LOCK).lstat()
            runs = (lock.st_dev, lock.st_ino) in locked
        except OSError:
            runs = False
        if runs:
            return "silent" if updated and time.time() - updated > SILENT_SECONDS else "running"
        if ended:
            return "done" if ended == "done" else "failed"
        job = self._json(layout.JOB)
        if job:
            return "done" if job.get("done") else "stopped" if job.get("released") else "silent"
        if self.events.place.offset:
            return "stopped"
        return "done" if (self.path / layout.CURVES).exists() else "unknown"

    def _metric(self) -> Metric | None:
        passes = [each for each in self.curves.passes if each["test"]]
        if not passes:
            return None
        names = list(passes[-1]["test"] or {})
        name = next((each for each in names if each != "cost"), names[0])
        higher = name in ("auc", "accuracy", "precision", "recall", "f1")
        tested = [(value, each["pass"]) for each in passes if (value := (each["test"] or {}).get(name)) is not None]
        if not tested:
            return None
        best = (max if higher else min)(tested, key=lambda pair: pair[0])
        return {"name": name, "higherIsBetter": higher, "value": tested[-1][0], "best": best[0], "bestPass": best[1]}

    def _modified(self) -> float | None:
        try:
            return (self.path / layout.METRICS).stat().st_mtime
        except OSError:
            return None

    def _nodes(self) -> list[int]:
        names = (path.name.removeprefix(layout.NODE) for path in self.path.glob(f"{layout.NODE}*"))
        return sorted(int(name) for name in names if name.isdecimal() and len(name) < 6)

    def logs(self) -> dict[str, tuple[str, Path]]:
        """By the name in an address: a title and the file."""
        found = {"job": ("job", self.path / layout.JOB_LOG)}
        for worker in self._nodes():
            for file, short, role in _LOGS:
                found[f"{worker}-{short}"] = (f"worker {worker}, {role}", layout.node(self.path, worker) / file)
        return {name: each for name, each in found.items() if each[1].is_file()}

    def detail(self, locked: set[tuple[int, int]]) -> Detail:
        run, told, curves = self.run(locked), self.events.history, self.curves
        logs: list[Log] = [
            {"name": name, "title": title, "bytes": path.stat().st_size} for name, (title, path) in self.logs().items()
        ]
        checkpoints = self._checkpoints()
        work = [told.newest_work[worker] for worker in sorted(told.newest_work)]
        slow = max(work, key=lambda each: each["computing"] / each["rounds"], default=None)
        changes = [{**each, "text": masked(each["text"])} for each in told.changes]
        failure = told.failure
        return {
            "run": run,
            "config": self._config(),
            "baseline": told.baseline or self.metrics.history.baseline,
            "series": curves.names(),
            "passes": curves.passes,
            "spans": [each for each in told.spans if not math.isnan(each["from"])],
            "changes": changes,  # type: ignore[typeddict-item]
            "failure": {**failure, "log": masked(failure["log"]), "cause": masked(failure["cause"])}
            if failure
            else None,
            "work": work,
            "slowest": {"worker": slow["worker"], "share": slow["computing"] / (slow["seconds"] or 1)}
            if slow
            else None,
            "processes": [told.newest_processes[key] for key in sorted(told.newest_processes)],
            "checkpoints": checkpoints,
            "snapshots": self._snapshots(),
            "atRisk": self._at_risk(run, checkpoints),
            "commands": self._commands(bool(checkpoints)),
            "logs": logs,
            "drawing": None,
            "cost": None,
        }

    def _config(self) -> Config:
        run = self._json(layout.RUN)
        flags = run.get("flags")
        text = run.get("config_text")
        return {
            "file": str(run["config"]) if run.get("config") else None,
            "text": masked(str(text)) if text else None,
            "flags": {str(k): masked(str(v), str(k)) for k, v in flags.items()} if isinstance(flags, dict) else {},
        }

    def _checkpoints(self) -> list[Checkpoint]:
        if not (self.path / layout.CHECKPOINTS).resolve().is_relative_to(self.path):
            return []
        try:
            found = inspection.listing(self.path)
        except (UmiakError, OSError):
            return []
        return [
            {"name": each.path.name, "round": each.round, "time": each.time, "bytes": each.bytes}
            for each in found
            if each.manifest is not None
        ]

    def _snapshots(self) -> list[Snapshot]:
        link = self.path / layout.BEST
        best = link.readlink().name if link.is_symlink() else ""
        found: list[Snapshot] = []
        for path in sorted(self.path.glob(f"{layout.PASS}*")):
            number_of = _PASS.match(path.name)
            try:
                if number_of is None or path.is_symlink():
                    continue
                when = (path / layout.DONE).lstat().st_mtime
                size = sum(each.lstat().st_size for each in path.iterdir())
            except OSError:
                continue
            found.append(
                {"name": path.name, "pass": int(number_of[1]), "time": when, "bytes": size, "best": path.name == best}
            )
        return found

    def _at_risk(self, run: Run, checkpoints: list[Checkpoint]) -> AtRisk | None:
        if run["state"] not in ("running", "silent") or run["round"] is None:
            return None
        last = checkpoints[-1] if checkpoints else None
        since = last["time"] if last else run["started"]
        rounds = run["round"] - (last["round"] if last else 0)
        return {"seconds": max(0.0, time.time() - since) if since else 0.0, "rounds": max(0, rounds)}

    def _commands(self, resumable: bool) -> list[Command]:
        config = self._json(layout.RUN).get("config")
        words = [str(config)] if config else []
        out = str(self.path).encode(errors="replace").decode()
        given: list[tuple[str, list[str]]] = []
        if resumable and words:
            given.append(("Resume", ["umiak", "train", *words, "--out", out, "--resume"]))
        snapshots = self._snapshots()
        if snapshots:
            last = f"{out}/{snapshots[-1]['name']}"
            given.append(("Test", ["umiak", "test", *words, "--init_model_path", last]))
            given.append(("Export", ["umiak", "export", last, f"{snapshots[-1]['name']}.safetensors"]))
        return [{"title": title, "command": shlex.join(each)} for title, each in given]
