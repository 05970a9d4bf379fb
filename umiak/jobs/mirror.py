"""Jobs of a cluster as run directories on this machine, for whoever shows them: live from the logs of their pods.

What lies on their volume is brought by umiak/jobs/history.py. Both end up in one events.jsonl: what the volume has, and after it
what pods have said since.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from umiak.contract.lines import EVENT_MARK, SERVER_MARK
from umiak.errors import InputError, UmiakError
from umiak.jobs import status
from umiak.jobs.manifests import CONTAINER
from umiak.jobs.status import Status, Worker
from umiak.kube.api import Api
from umiak.kube.objects import path
from umiak.kube.refusals import ApiError

FOLLOWED = 16
"""The logs of more workers than this are not followed: one request for each, again and again."""
EVENTS = "events.jsonl"
OVER = ("done", "failed")
"""A cancelled job may be resumed."""


@dataclass
class Followed:
    """How far the log of a pod was read: the stamp of its last line."""

    pod: str = ""
    stamp: str = ""


@dataclass
class Job:
    """One job, and its directory here."""

    name: str
    directory: Path
    seen: Status | None = None
    told: list[str] = field(default_factory=list)
    """The events that its pods have told, as JSON."""
    kept: list[str] = field(default_factory=list)
    """Those of the volume, which come first."""
    followed: dict[int, Followed] = field(default_factory=dict)
    is_over: bool = False
    """It has ended and everything was read."""

    def write_events(self) -> None:
        """Everything anew, under the same name at once."""
        self.directory.mkdir(parents=True, exist_ok=True)
        last = time_of(self.kept[-1]) if self.kept else ""
        lines = [*self.kept, *(line for line in self.told if time_of(line) > last)]
        new = self.directory / f".{EVENTS}"
        new.write_text("".join(f"{line}\n" for line in lines))
        new.replace(self.directory / EVENTS)

    def add_events(self, lines: list[str]) -> None:
        self.told += lines
        last = time_of(self.kept[-1]) if self.kept else ""
        with (self.directory / EVENTS).open("a") as file:
            file.writelines(f"{line}\n" for line in lines if time_of(line) > last)


def time_of(line: str) -> str:
    """When an event was told; empty if it does not say. Times of one form compare as texts."""
    try:
        return str(json.loads(line).get("time", ""))
    except (ValueError, AttributeError):
        return ""


class Mirror:
    """`names` says which jobs there are, again and again. Asks only when `step` is called; one thread may do that."""

    def __init__(self, api: Api, namespace: str, names: Callable[[], Iterable[str]], target: Path) -> None:
        self.api, self.namespace, self.names, self.target = api, namespace, names, target
        self.jobs: dict[str, Job] = {}
        self.trouble = ""
        """Why the cluster could not be asked last time."""

    def step(self) -> None:
        """Ask for everything that may be new. A cluster that cannot be reached is no error: what is known stays."""
        try:
            names = list(self.names())
            for name in names:
                self._look_at(name)
            for gone in [name for name in self.jobs if name not in names]:
                del self.jobs[gone]
            self.trouble = ""
        except InputError as error:
            # There is no such job, or no such namespace.
            self.trouble = str(error)
        except UmiakError as error:
            self.trouble = f"the cluster cannot be asked: {error}"

    def _look_at(self, name: str) -> None:
        job = self.jobs.get(name)
        if job is None:
            job = Job(name, self.target / name)
            job.write_events()
            self.jobs[name] = job
        if job.is_over:
            return
        job.seen = status.gather(self.api, self.namespace, name)
        for worker in job.seen.workers[:FOLLOWED]:
            if worker.pod:
                self._follow(job, worker)
        job.is_over = job.seen.state in OVER

    def _follow(self, job: Job, worker: Worker) -> None:
        """Read what a worker's pod has said since; one that took the place of another is read from its beginning."""
        place = job.followed.setdefault(worker.worker, Followed())
        if place.pod != worker.pod:
            place.pod, place.stamp = worker.pod, ""
        # The API takes whole seconds; what comes twice by that is left out by its stamp.
        since = place.stamp.partition(".")[0].rstrip("Z") + "Z" if place.stamp else None
        where = path("Pod", self.namespace, worker.pod, "log")
        try:
            text = self.api.text(where, container=CONTAINER, timestamps="true", sinceTime=since)
        except ApiError as error:
            # It is just starting, or its node is lost, or we may not read logs.
            if error.code in (400, 403, 404, 500, 502, 503, 504):
                return
            raise
        events, trainer, server = [], [], []
        for line in text.splitlines():
            stamp, _, said = line.partition(" ")
            if stamp <= place.stamp:
                continue
            place.stamp = stamp
            if said.startswith(SERVER_MARK):
                server.append(said[len(SERVER_MARK) :])
            elif said.startswith(EVENT_MARK):
                events.append(said[len(EVENT_MARK) :])
            else:
                trainer.append(said)
        if worker.worker == 0 and events:
            # Worker 0's pod speaks for all.
            job.add_events(events)
        node = job.directory / f"node_{worker.worker}"
        _append(node / "train.log", trainer)
        _append(node / "server.log", server)


def _append(file: Path, lines: list[str]) -> None:
    if lines:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as out:
            out.writelines(f"{line}\n" for line in lines)
