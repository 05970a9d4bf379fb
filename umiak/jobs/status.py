"""What is known about a job in the cluster: asks the API as little as the question needs, and puts the answers together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from umiak.contract.lines import Told, read_event
from umiak.errors import InputError, RetryError
from umiak.jobs import capacity
from umiak.jobs.diagnosis import Facts, Problem, last_event, not_created, problems
from umiak.jobs.manifests import (
    CANCELLED_ANNOTATION,
    CLAIM_ANNOTATION,
    CONTAINER,
    LABEL,
    OUTPUT_ANNOTATION,
    RENEWED_ANNOTATION,
)
from umiak.jobs.pods import Pod, pod
from umiak.kube.api import Api
from umiak.kube.nodes import Node, node
from umiak.kube.objects import Object, moment, path
from umiak.kube.refusals import ApiError
from umiak.wire import credentials

TAIL_LINES = 400
# Log lines of one worker's last minutes; enough to hold a few events between them.
TAIL_BYTES = 200_000
LOG_SECONDS = 5.0

State = Literal["submitting", "waiting", "running", "stopping", "cancelled", "done", "failed", "deleting"]
FINAL = ("done", "failed", "cancelled")
# What a finished job's exit code may be; a signal's number is none of a training's.
CODES = (1, 2, 75)


@dataclass(frozen=True)
class Worker:
    """One line of a status: the newest pod of a worker, if there is one."""

    worker: int
    phase: str
    pod: str = ""
    node: str = ""
    since: datetime | None = None
    until: datetime | None = None
    event: str = ""
    failures: int = 0


@dataclass(frozen=True)
class Status:
    name: str
    namespace: str
    state: State
    workers: tuple[Worker, ...]
    created: datetime | None
    started: datetime | None
    finished: datetime | None
    claim: str
    output: str
    problems: tuple[Problem, ...]
    told: tuple[Told, ...]
    message: str
    certificates_until: datetime | None = None

    @property
    def first(self) -> Problem | None:
        """The failure everything else follows from. While a job runs well again, what was replaced is history."""
        return next(iter(self.problems), None)

    @property
    def exit_code(self) -> int:
        """The training's: 0 done, 2 the user's input, 75 stopped on request or worth another try, 1 anything else."""
        if self.state == "cancelled":
            return 75
        if self.state != "failed":
            return 0
        return self.first.code if self.first and self.first.code in CODES else 1

    def expires_soon(self, now: datetime) -> datetime | None:
        """The end of the job's certificates, if it is near and the job is not over."""
        until = self.certificates_until
        return until if until and not self.finished and until - now < credentials.WARNING else None

    def as_json(self) -> str:
        """For programs. What was told has been called `said` since umiak 0.1.0: each event as its line had it."""
        content = {"said" if name == "told" else name: value for name, value in asdict(self).items()}
        content["said"] = [told.written for told in self.told]
        return json.dumps(content, indent=1, default=_plain)


def _plain(value: Any) -> Any:
    return (
        value.isoformat() if isinstance(value, datetime) else float(value) if isinstance(value, Decimal) else str(value)
    )


def find(api: Api, namespace: str, name: str) -> Object:
    job = api.find(path("Job", namespace, name))
    if job is None or job["metadata"].get("labels", {}).get(LABEL) != name:
        raise InputError(f"there is no job {name!r} in namespace {namespace}: `umiak job ls -A` lists all there are")
    return job


def _conditions(job: Object) -> dict[str, Object]:
    return {each["type"]: each for each in job.get("status", {}).get("conditions") or [] if each["status"] == "True"}


def ended(job: Object) -> Object | None:
    conditions = _conditions(job)
    return conditions.get("Complete") or conditions.get("Failed")


def gather(api: Api, namespace: str, name: str) -> Status:
    """Two or three requests for a job that is well, a few more for one that is not; never one per pod."""
    job = find(api, namespace, name)
    items = api.items(
        path("Pod", namespace), labelSelector=f"{LABEL}={name},batch.kubernetes.io/controller-uid={_uid(job)}"
    )
    pods = [pod(item) for item in items]
    events = _events(api, namespace, job, pods)
    nodes = _nodes(api, pods)
    rooms = _rooms(api, job, pods, nodes)
    return assemble(job, pods, events, nodes, rooms, _told(api, namespace, pods))


def _uid(job: Object) -> str:
    return str(job["metadata"]["uid"])


def assemble(
    job: Object,
    pods: Sequence[Pod],
    events: Sequence[Object] = (),
    nodes: Sequence[Node] | None = None,
    rooms: Sequence[capacity.Room] = (),
    told: Iterable[Told] = (),
) -> Status:
    """The status these objects amount to. Pure."""
    meta, template = job["metadata"], job["spec"]["template"]["spec"]
    annotations = meta.get("annotations") or {}
    memory = _limit(template)
    found = problems(Facts(pods, events, nodes, rooms, template, memory))
    state, message = state_of(job, pods)
    workers = tuple(_workers(int(job["spec"].get("completions") or 1), pods, events))
    found += not_created(job, [worker.worker for worker in workers if not worker.pod], events)
    if state == "cancelled" or state == "stopping":
        # They were told to stop, and did.
        found = [problem for problem in found if problem.code not in (75, 143)]
    end = ended(job)
    return Status(
        name=meta["name"],
        namespace=meta["namespace"],
        state=state,
        workers=workers,
        created=moment(meta.get("creationTimestamp")),
        started=moment(job.get("status", {}).get("startTime")),
        finished=moment(end.get("lastTransitionTime")) if end else None,
        claim=annotations.get(CLAIM_ANNOTATION, ""),
        output=annotations.get(OUTPUT_ANNOTATION, ""),
        problems=tuple(found),
        told=tuple(told),
        message=message,
        certificates_until=certificates_until(job),
    )


def certificates_until(job: Object) -> datetime | None:
    """When the job's certificates end: they are made with it, and again when it is resumed late."""
    meta = job["metadata"]
    made = moment((meta.get("annotations") or {}).get(RENEWED_ANNOTATION)) or moment(meta.get("creationTimestamp"))
    return made and made + timedelta(days=credentials.DAYS)


def state_of(job: Object, pods: Sequence[Pod]) -> tuple[State, str]:
    conditions = _conditions(job)
    if job["metadata"].get("deletionTimestamp"):
        return "deleting", ""
    if "Complete" in conditions:
        return "done", ""
    for kind in ("Failed", "FailureTarget"):
        if kind in conditions:
            return "failed", str(conditions[kind].get("message", ""))
    if job["spec"].get("suspend"):
        if CANCELLED_ANNOTATION not in (job["metadata"].get("annotations") or {}):
            return "submitting", ""
        ending = [each for each in pods if each.phase in ("Pending", "Running")]
        return ("stopping" if ending else "cancelled"), ""
    running = {each.worker for each in pods if each.phase in ("Running", "Succeeded") and each.deleted is None}
    return ("running" if len(running) >= int(job["spec"].get("completions") or 1) else "waiting"), ""


def _workers(count: int, pods: Sequence[Pod], events: Sequence[Object]) -> Iterable[Worker]:
    of: dict[int, list[Pod]] = {}
    for each in sorted(pods, key=lambda each: (each.created or datetime.min.replace(tzinfo=UTC), each.name)):
        of.setdefault(each.worker, []).append(each)
    for worker in range(count):
        mine = of.get(worker, [])
        if not mine:
            yield Worker(worker, "no pod")
            continue
        newest = mine[-1]
        failures = sum(each.phase == "Failed" for each in mine)
        yield Worker(
            worker,
            _phase(newest),
            newest.name,
            newest.node,
            newest.started or newest.created,
            newest.end.time if newest.end else None,
            last_event(newest, events),
            failures,
        )


def _phase(each: Pod) -> str:
    if each.deleted and each.phase in ("Pending", "Running"):
        return "stopping"
    if each.phase == "Pending" and not each.node:
        return "unscheduled"
    if each.phase == "Pending":
        return "starting"
    return {"Running": "running", "Succeeded": "done", "Failed": "failed"}.get(each.phase, each.phase.lower())


def _limit(template: Object) -> str:
    for each in template.get("containers", []):
        if each.get("name") == CONTAINER:
            return str(each.get("resources", {}).get("limits", {}).get("memory", ""))
    return ""


def _events(api: Api, namespace: str, job: Object, pods: Sequence[Pod]) -> list[Object]:
    """Only where a pod is not simply running: a large job has thousands of events, and they say nothing then."""
    well = {each.worker for each in pods if each.phase in ("Running", "Succeeded") and not each.deleted}
    if len(well) == len(pods) and (len(well) == job["spec"].get("completions") or job["spec"].get("suspend")):
        return []
    return _allowed(lambda: api.items(path("Event", namespace))) or []


def _nodes(api: Api, pods: Sequence[Pod]) -> list[Node] | None:
    """Only where a pod is without a node, or its node may be lost."""
    unsure = [
        each
        for each in pods
        if (each.phase == "Pending" and not each.node)
        or (each.phase in ("Pending", "Running") and (each.deleted or _unready(each)))
    ]
    if not unsure:
        return None
    items = _allowed(lambda: api.items(path("Node", None)))
    return None if items is None else [node(item) for item in items]


def _unready(each: Pod) -> bool:
    return each.phase == "Running" and each.conditions.get("Ready", {}).get("status") != "True"


def _rooms(api: Api, job: Object, pods: Sequence[Pod], nodes: Sequence[Node] | None) -> list[capacity.Room]:
    if not nodes or not any(each.phase == "Pending" and not each.node for each in pods):
        return []
    query = "status.phase!=Succeeded,status.phase!=Failed"
    everybody = _allowed(lambda: api.items(path("Pod", None), fieldSelector=query))
    return [] if everybody is None else capacity.rooms(nodes, everybody, job["spec"]["template"]["spec"])


def _allowed(ask: Any) -> list[Object] | None:
    """None where we may not look; a diagnosis does with what it can see."""
    try:
        return ask()
    except ApiError as error:
        if error.code == 403:
            return None
        raise


def _told(api: Api, namespace: str, pods: Sequence[Pod]) -> list[Told]:
    """What worker 0's pod, which speaks for all, said last."""
    mine = [each for each in pods if each.worker == 0 and each.started]
    if not mine:
        return []
    newest = max(mine, key=lambda each: each.started or datetime.min.replace(tzinfo=UTC))
    where = path("Pod", namespace, newest.name, "log")
    try:
        text = api.text(where, LOG_SECONDS, container=CONTAINER, tailLines=TAIL_LINES, limitBytes=TAIL_BYTES)
    except RetryError:
        # The API server has answered everything else: it waits for a node that has fallen silent.
        return []
    except ApiError as error:
        # A pod that is just starting has no log, one on a lost node cannot be asked, and not everybody may read logs.
        if error.code in (400, 403, 404, 500, 502, 503, 504):
            return []
        raise
    return list(events_in(text.splitlines()))


def events_in(lines: Iterable[str]) -> Iterable[Told]:
    """The events among the lines of a log."""
    for line in lines:
        if (event := read_event(line)) is not None:
            yield event
