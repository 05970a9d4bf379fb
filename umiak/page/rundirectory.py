"""One run directory, read again and again while it grows: what the list says of it, and everything else."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from umiak.page import cost, drawing, failing, logfile, safe, saved
from umiak.page.answers import Change, Checkpoint, Config, Cost, Detail, Failure, Log, Metric, Run, State
from umiak.page.cluster import ClusterJob
from umiak.page.cost import Price
from umiak.page.curves import Curves
from umiak.page.masking import masked
from umiak.page.source import Signature, Source, signature
from umiak.page.values import number
from umiak.rundir import layout

SILENT_SECONDS = 60.0
HIGHER_IS_BETTER = ("auc", "accuracy", "precision", "recall", "f1")
"""For runs that do not say it of their metrics."""
FILES = (layout.METRICS, layout.EVENTS, layout.RUN, layout.JOB, cost.FILE, layout.CURVES)
"""What the list tells of a run comes from these."""
Locked = set[tuple[int, int]]
_LOGS = (
    (layout.TRAINER_LOG, "train", "trainer"),
    (layout.SERVER_LOG, "server", "server"),
    (layout.WORKER_LOG, "worker", "supervisor"),
)


class RunDirectory:
    metrics: Source
    events: Source
    _curves: Curves | None

    def __init__(
        self, path: Path, root: Path, roots: Sequence[Path], price: Price | None = None, cache: Path | None = None
    ) -> None:
        self.path, self.roots, self.price = path, roots, price
        self.id = hashlib.sha256(str(path).encode(errors="surrogateescape")).hexdigest()[:16]
        name = str(path.relative_to(root)) if path != root else path.name
        self.name = name.encode(errors="replace").decode()
        self._cache = cache
        self._begin()
        self.job: ClusterJob | None = None

    def refresh(self, seconds: float = math.inf) -> bool:
        """Whether something is new. What takes longer is read next time: `is_behind`."""
        changed = self.metrics.refresh(self.roots, seconds) | self.events.refresh(self.roots, seconds)
        if changed:
            self._curves = None
        return changed

    def forget(self) -> None:
        """Give back the memory of what was read; it can be read again."""
        self._begin()

    def _begin(self) -> None:
        names = (layout.METRICS, layout.EVENTS)
        kept = [self._cache / f"{self.id}-{name}.npz" if self._cache else None for name in names]
        self.metrics, self.events = (Source(self.path / name, file) for name, file in zip(names, kept, strict=True))
        self._curves = None
        self.forget_small()

    def forget_small(self) -> None:
        """Give back the memory of small files: of many runs it adds up."""
        self._read: dict[str, tuple[Signature | None, dict[str, Any]]] = {}
        self._drawn: tuple[dict[str, Any], str | None] = {}, None

    @property
    def is_behind(self) -> bool:
        return self.metrics.is_behind or self.events.is_behind

    @property
    def bytes(self) -> int:
        return self.metrics.bytes + self.events.bytes

    def signatures(self) -> list[Signature | None]:
        return [signature(self.path / name) for name in FILES]

    @property
    def curves(self) -> Curves:
        if self._curves is None:
            self._curves = Curves(self.metrics.history, self.events.history)
        return self._curves

    def _json(self, name: str) -> dict[str, Any]:
        """What a small file holds; it is read again when it has changed."""
        now = signature(self.path / name)
        known = self._read.get(name)
        if known is None or known[0] != now:
            known = self._read[name] = now, self._parsed(name) if now else {}
        return known[1]

    def _parsed(self, name: str) -> dict[str, Any]:
        try:
            value = json.loads(safe.read(self.path / name, self.roots) or b"{}")
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    def is_locked(self, locked: Locked) -> bool:
        """Whether somebody on this machine trains here now."""
        try:
            lock = (self.path / layout.LOCK).lstat()
        except OSError:
            return False
        return (lock.st_dev, lock.st_ino) in locked

    def run(self, locked: Locked) -> Run:
        told, metrics, job, about = self.events.history, self.metrics.history, self.job, self._json(layout.RUN)
        passes = self.curves.passes
        rounds = told.rounds if len(told.rounds) else metrics.rounds
        last = [int(rounds["round"][-1])] if len(rounds) else []
        last += [passes[-1]["round"]] if passes else []
        started = number(told.started) or number(metrics.started) or (job.started if job else None)
        updated = number(told.updated) or number(metrics.updated) or (job.finished if job else self._modified())
        lasted = updated - started if started and updated else sum(each["seconds"] for each in passes) or None
        workers = told.workers or about.get("workers") or (job.workers if job else None) or len(self._nodes())
        bill = self._cost(about, locked)
        return {
            "id": self.id,
            "name": job.name if job else self.name,
            "place": job.place if job else saved.printable(self.path),
            "source": "cluster" if job else "directory",
            "state": job.state if job else self._state(locked, updated),
            "problem": self._problem(),
            "started": started,
            "updated": updated,
            "seconds": lasted,
            "passes": len(passes),
            "round": max(last, default=None),
            "samples": passes[-1]["samples"] if passes else None,
            "samplesPerSecond": number(float(rounds["samplesPerSecond"][-1])) if len(rounds) else None,
            "workers": workers if isinstance(workers, int) and workers > 0 else None,
            "metric": self._metric(about),
            "dollars": bill["dollars"] if bill else None,
        }

    def _problem(self) -> str | None:
        if self.job:
            return self.job.problem
        failure, damaged = self._told_failure(), self.metrics.damaged + self.events.damaged
        if failure:
            return masked(failure["cause"])
        lines = "1 damaged line was" if damaged == 1 else f"{damaged} damaged lines were"
        return f"{lines} passed over" if damaged else None

    def _state(self, locked: Locked, updated: float | None) -> State:
        ended = self.events.history.ended_as
        if self.is_locked(locked):
            return "silent" if updated and time.time() - updated > SILENT_SECONDS else "running"
        if ended:
            return "done" if ended == "done" else "failed"
        job = self._json(layout.JOB)
        if job:
            return "done" if job.get("done") else "stopped" if job.get("released") else "silent"
        if self.events.place.offset:
            return "stopped"
        return "done" if (self.path / layout.CURVES).exists() else "unknown"

    def _metric(self, about: dict[str, Any]) -> Metric | None:
        passes = [each for each in self.curves.passes if each["test"]]
        if not passes:
            return None
        names = list(passes[-1]["test"] or {})
        name = next((each for each in names if each != "cost"), names[0])
        known = about.get("higher_is_better")
        higher = bool(known[name]) if isinstance(known, dict) and name in known else name in HIGHER_IS_BETTER
        tested = [(value, each["pass"]) for each in passes if (value := (each["test"] or {}).get(name)) is not None]
        if not tested:
            return None
        best = (max if higher else min)(tested, key=lambda pair: pair[0])
        return {"name": name, "higherIsBetter": higher, "value": tested[-1][0], "best": best[0], "bestPass": best[1]}

    def _cost(self, about: dict[str, Any], locked: Locked) -> Cost | None:
        price = (self.job.price if self.job else None) or self.price or cost.beside(self._json(cost.FILE))
        history = self.events.history if self.events.place.offset else self.metrics.history
        if price is None or math.isnan(history.started):
            return None
        runs = self.job.state == "running" if self.job else self.is_locked(locked)
        now = time.time() if runs else history.updated
        passes = self.curves.passes
        end = passes[-1]["time"] if passes else None
        until = history.worked(end) if end is not None else None
        samples = passes[-1]["samples"] if passes else None
        return cost.cost(price, history.worked(now), history.lost_until(now), until, samples)

    def _modified(self) -> float | None:
        known = signature(self.path / layout.METRICS)
        return known[2] / 1e9 if known else None

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

    def detail(self, locked: Locked) -> Detail:
        run, told, about = self.run(locked), self.events.history, self._json(layout.RUN)
        checkpoints = self.job.checkpoints if self.job else saved.checkpoints(self.path, self.roots)
        snapshots = self.job.snapshots if self.job else saved.snapshots(self.path)
        newest = _newest(checkpoints, told.checkpoint if self.job or not checkpoints else None)
        work = [told.newest_work[worker] for worker in sorted(told.newest_work)]
        slow = max(work, key=lambda each: each["computing"] / each["rounds"], default=None)
        commands = self.job.commands if self.job else saved.commands(self.path, about, bool(checkpoints), snapshots)
        return {
            "run": run,
            "config": self.config(),
            "baseline": told.baseline or self.metrics.history.baseline,
            "series": self.curves.names(),
            "passes": self.curves.passes,
            "spans": [each for each in told.spans if not math.isnan(each["from"])],
            "changes": [Change({**each, "text": masked(each["text"])}) for each in told.changes],
            "failure": self._failure(run["state"]),
            "work": work,
            "slowest": {"worker": slow["worker"], "share": slow["computing"] / (slow["seconds"] or 1)}
            if slow
            else None,
            "processes": [told.newest_processes[key] for key in sorted(told.newest_processes)],
            "checkpoints": checkpoints,
            "snapshots": snapshots,
            "atRisk": saved.at_risk(run, newest),
            "commands": commands,
            "logs": self._log_list(),
            "drawing": self._drawing(about),
            "cost": self._cost(about, locked),
        }

    def _drawing(self, about: dict[str, Any]) -> str | None:
        if self._drawn[0] is not about:
            self._drawn = about, drawing.of_run(about)
        return self._drawn[1]

    def _failure(self, state: State) -> Failure | None:
        failure = (self.job.failure if self.job else None) or self._told_failure()
        if failure is None or state == "running":
            return None
        log = failure["log"] or self._last_lines(failing.log_of(failure))
        return {**failure, "log": masked(log), "cause": masked(failure["cause"])}

    def _told_failure(self) -> Failure | None:
        event = self.events.history.failed
        return failing.of_event(event, in_pods=bool(self._json(layout.JOB))) if event else None

    def _last_lines(self, name: str) -> str:
        found = self.logs().get(name)
        try:
            lines = logfile.lines(found[1], self.roots)["lines"] if found else []
        except OSError:
            return ""
        return "\n".join(line["text"] for line in lines[-failing.LAST_LINES :])

    def _log_list(self) -> list[Log]:
        found: list[Log] = []
        for name, (title, path) in self.logs().items():
            if known := signature(path):
                found.append({"name": name, "title": title, "bytes": known[1]})
        return found

    def config(self) -> Config:
        about = self._json(layout.RUN)
        flags, text = about.get("flags"), about.get("config_text")
        return {
            "file": str(about["config"]) if about.get("config") else None,
            "text": masked(str(text)) if text else None,
            "flags": {str(k): masked(str(v), str(k)) for k, v in flags.items()} if isinstance(flags, dict) else {},
        }


def _newest(listed: list[Checkpoint], told: tuple[int, float] | None) -> tuple[int, float] | None:
    """Round and time. A cluster's were listed a while ago, and its pods have told of newer ones since."""
    known = [(each["round"], each["time"]) for each in listed[-1:]]
    return max([*known, *([told] if told else [])], default=None)
