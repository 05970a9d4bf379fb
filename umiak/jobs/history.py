"""What jobs have written on their volumes so far, brought into their directories here through a pod that only reads.

The pod is removed as soon as everything is here, and also when `stop` is set meanwhile.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from umiak.contract.volume import File
from umiak.errors import RetryError, UmiakError
from umiak.jobs import output, volume_pod
from umiak.jobs.mirror import EVENTS, Job
from umiak.kube.api import Api
from umiak.kube.objects import Object

MOST_BYTES = 64 << 20
"""A file that is larger stays on the volume."""
FILES = ("metrics.jsonl", EVENTS, "run.json", "job.log", "price.json")
HIDDEN = ".history"


class StoppableApi(Api):
    """One whose waiting ends when `stop` is set; what was made can still be deleted."""

    stop: threading.Event

    def items(self, where: str, **query: Any) -> list[Object]:
        if self.stop.is_set():
            raise RetryError("the page ends")
        return super().items(where, **query)


@dataclass
class History:
    """Of all jobs: what lies on the volume by job, and why something could not be read."""

    api: StoppableApi
    namespace: str
    files: dict[str, list[File]] = field(default_factory=dict)
    trouble: str = ""

    def bring(self, jobs: list[Job]) -> None:
        """One pod for all jobs whose output lies on the same claim. Raises nothing: live, a job is shown without it."""
        places: dict[tuple[str, str], list[tuple[Job, str]]] = {}
        self.trouble = ""
        for job in jobs:
            with self._telling():
                place = output.of_job(self.api, self.namespace, job.name)
                places.setdefault((place.claim, place.image), []).append((job, place.directory))
        for (claim, image), wanted in places.items():
            with self._telling(), volume_pod.started(self.api, self.namespace, claim, image) as pod:
                for job, directory in wanted:
                    self._bring(pod, job, directory)

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except UmiakError as error:
            self.trouble = f"what lies on the volume cannot be read: {error}"

    def _bring(self, pod: volume_pod.VolumePod, job: Job, directory: str) -> None:
        try:
            found = output.listing(pod, directory)
        except UmiakError:
            # A job that has written nothing yet has no directory.
            if self.api.stop.is_set():
                raise
            return
        self.files[job.name] = found
        here = job.directory.parent / HIDDEN / job.name
        output.pull(pod, directory, [file for file in found if is_wanted(file)], here, self._check)
        adopt(job, here)

    def _check(self, done: int, total: int) -> None:
        if self.api.stop.is_set():
            raise RetryError("the page ends")


def is_wanted(file: File) -> bool:
    """Curves, events and logs; never snapshots and checkpoints."""
    first, slash, last = file.path.partition("/")
    is_log = first.startswith("node_") and last.endswith(".log") and "/" not in last
    return file.size <= MOST_BYTES and (is_log if slash else first in FILES)


def adopt(job: Job, here: Path) -> None:
    """Put what was brought into a job's directory: logs of the volume are whole, those of pods are their end."""
    for file in sorted(here.rglob("*")):
        name = file.relative_to(here)
        if not file.is_file() or file.name.startswith("."):
            continue
        if str(name) == EVENTS:
            job.kept = file.read_text(errors="replace").splitlines()
            job.write_events()
            continue
        target = job.directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(f".{target.name}.new")
        new.write_bytes(file.read_bytes())
        new.replace(target)
