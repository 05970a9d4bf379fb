"""All jobs of a namespace, or of all namespaces: what their Job objects alone tell, in one request."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from umiak.jobs.manifests import LABEL
from umiak.jobs.status import ended, state_of
from umiak.kube.api import Api
from umiak.kube.objects import Object, moment, path


@dataclass(frozen=True)
class Line:
    """A job in a list of jobs: what its Job object alone tells."""

    name: str
    namespace: str
    state: str
    ready: int
    workers: int
    created: datetime | None
    finished: datetime | None


def listed(api: Api, namespace: str | None) -> list[Line]:
    """All jobs of a namespace, or of all, newest first; one request."""
    jobs = [_line(job) for job in api.items(path("Job", namespace), labelSelector=LABEL)]
    return sorted(jobs, key=lambda job: str(job.created), reverse=True)


def _line(job: Object) -> Line:
    counts, wanted = job.get("status", {}), int(job["spec"].get("completions") or 1)
    state = state_of(job, ())[0]
    if state == "cancelled" and (counts.get("active") or counts.get("terminating")):
        state = "stopping"
    ready = int(counts.get("ready") or 0) + int(counts.get("succeeded") or 0)
    if state == "waiting" and ready >= wanted:
        state = "running"
    end = ended(job)
    return Line(
        job["metadata"]["name"],
        job["metadata"]["namespace"],
        state,
        ready,
        wanted,
        moment(job["metadata"].get("creationTimestamp")),
        moment(end.get("lastTransitionTime")) if end else None,
    )
