"""First failure first: what went wrong, in words, from recorded API objects. Pure; asks nobody.

Each rule looks at one pod and says what is the matter and what to do, or nothing. Then cause is told from consequence: a
pod that says it failed because of another never comes first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from umiak.contract import reasons
from umiak.jobs import capacity
from umiak.jobs.pods import Pod
from umiak.kube.nodes import Node
from umiak.kube.objects import Object, moment

LOG_LINES = 12
_PULLING = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
_DISRUPTIONS = {
    "PreemptionByScheduler": "a pod of higher priority took its place",
    "DeletionByTaintManager": "its node was lost or drained",
    "EvictionByEvictionAPI": "it was evicted, as when a node is drained",
    "DeletionByPodGC": "its node is gone",
    "TerminationByKubelet": "its node ran out of a resource or shut down",
}


@dataclass(frozen=True)
class Problem:
    """One worker's trouble. `replaced`: Kubernetes has already started a pod in its place."""

    worker: int
    pod: str
    node: str
    what: str
    fix: str = ""
    code: int | None = None
    when: datetime | None = None
    log: str = ""
    because_of: int | None = None
    waiting: bool = False
    replaced: bool = False
    reason: str = ""
    """Why, as a code of umiak/contract/reasons.py; empty where the pod gave none."""


@dataclass(frozen=True)
class Facts:
    """What the rules may look at. `nodes` is None where nobody may list them."""

    pods: Sequence[Pod]
    events: Sequence[Object] = ()
    nodes: Sequence[Node] | None = None
    rooms: Sequence[capacity.Room] = ()
    template: Object | None = None
    memory: str = ""


def problems(facts: Facts) -> list[Problem]:
    """Everything that is wrong now or has been: causes before consequences, each by time."""
    newest: dict[int, Pod] = {}
    for pod in sorted(facts.pods, key=_age):
        newest[pod.worker] = pod
    found = []
    for pod in facts.pods:
        problem = next((said for rule in RULES if (said := rule(pod, facts))), None)
        if problem:
            found.append(replace(problem, replaced=newest[pod.worker] is not pod))
    found += list(_told_by_others(found, newest))
    found = [problem if problem.because_of is None else replace(problem, log="") for problem in found]
    return sorted(found, key=lambda problem: (problem.because_of is not None, _time(problem.when), problem.worker))


def _told_by_others(found: Sequence[Problem], newest: Mapping[int, Pod]) -> Iterator[Problem]:
    """Failures of workers whose own pods say nothing: a Job that fails removes pods that have not quite ended."""
    known = {problem.worker for problem in found if problem.because_of is None}
    for problem in found:
        culprit = problem.because_of
        if culprit is None or culprit < 0 or culprit in known:
            continue
        known.add(culprit)
        pod = None if problem.replaced else newest.get(culprit)
        name, node = (pod.name, pod.node) if pod else ("gone", "")
        fix = reasons.pod_advice(problem.reason, problem.code)
        yield replace(problem, worker=culprit, pod=name, node=node, fix=fix, because_of=None)


def not_created(job: Object, missing: Sequence[int], events: Sequence[Object]) -> list[Problem]:
    """Workers for which Kubernetes may not even make a pod: a quota, or a policy of the namespace."""
    for event in sorted(events, key=_event_time, reverse=True):
        about = event.get("involvedObject", {})
        if about.get("uid") == job["metadata"]["uid"] and event.get("reason") == "FailedCreate":
            what = f"Kubernetes refuses to make its pod: {_one(event.get('message', ''))}"
            fix = "ask for more quota, ask for less in job.yaml, or change pod: to what the namespace allows"
            when = moment(_event_time(event))
            return [Problem(worker, "not made", "", what, fix, when=when, waiting=True) for worker in missing]
    return []


def _age(pod: Pod) -> tuple[datetime, str]:
    return _time(pod.created), pod.name


def _time(when: datetime | None) -> datetime:
    return when or datetime.max.replace(tzinfo=UTC)


def _problem(pod: Pod, what: str, fix: str = "", **more: Any) -> Problem:
    return Problem(pod.worker, pod.name, pod.node, what, fix, **more)


def _ended(pod: Pod, what: str, fix: str = "") -> Problem:
    """A problem of a container that ran: with its code, its time and its last words."""
    assert pod.end is not None
    report = pod.end.report
    log = report.log if report else pod.end.message
    return _problem(
        pod,
        what,
        fix,
        code=pod.end.code,
        when=(report.time if report else None) or pod.end.time,
        log="\n".join(log.strip().splitlines()[-LOG_LINES:]),
        because_of=report.because_of if report and not report.first else None,
        reason=report.reason if report else "",
    )


def _out_of_memory(pod: Pod, facts: Facts) -> Problem | None:
    if not pod.end or pod.end.reason != "OOMKilled":
        return None
    limit = f" of {facts.memory}" if facts.memory else ""
    return _ended(
        pod,
        f"out of memory: the kernel killed it at its limit{limit}",
        reasons.MORE_MEMORY,
    )


def _evicted(pod: Pod, facts: Facts) -> Problem | None:
    if pod.reason != "Evicted":
        return None
    when = moment(pod.conditions.get("DisruptionTarget", {}).get("lastTransitionTime")) or (pod.end and pod.end.time)
    low = re.search(r"low on resource: (\S+?)\.", pod.message)
    what = (
        f"evicted: node {pod.node} was low on {low[1]}" if low else f"evicted from node {pod.node}: {_one(pod.message)}"
    )
    return _problem(pod, what, "it is replaced; use nodes with more of it if this repeats", when=when)


def _disrupted(pod: Pod, facts: Facts) -> Problem | None:
    condition = pod.conditions.get("DisruptionTarget", {})
    if condition.get("status") != "True":
        return None
    reason = condition.get("reason", "")
    what = f"stopped from outside: {_DISRUPTIONS.get(reason, _one(condition.get('message') or reason))}"
    fix = "it is replaced, and training resumes from the last checkpoint"
    silent = _silent(pod, facts)
    if silent and pod.phase == "Running":
        return _lost(pod, silent)
    return _problem(
        pod, what, fix, when=moment(condition.get("lastTransitionTime")), code=pod.end.code if pod.end else None
    )


def _lost_node(pod: Pod, facts: Facts) -> Problem | None:
    node = _silent(pod, facts)
    return _lost(pod, node) if node and pod.phase in ("Running", "Pending") else None


def _silent(pod: Pod, facts: Facts) -> Node | None:
    return next((node for node in facts.nodes or () if node.name == pod.node and node.silent), None)


def _lost(pod: Pod, node: Node) -> Problem:
    since = f" since {node.since:%H:%M:%S} UTC" if node.since else ""
    return _problem(
        pod,
        f"node {node.name} is silent{since}; Kubernetes waits for it, because the pod may still run there",
        f"if the machine is truly gone, free the worker with: kubectl delete node {node.name}",
        when=node.since,
    )


def _no_node(pod: Pod, facts: Facts) -> Problem | None:
    if facts.nodes is None or not pod.node or pod.phase != "Running" or any(n.name == pod.node for n in facts.nodes):
        return None
    return _problem(pod, f"node {pod.node} is gone", "it is replaced within a minute", when=pod.deleted)


def _image(pod: Pod, facts: Facts) -> Problem | None:
    if not pod.waiting or pod.waiting[0] not in _PULLING:
        return None
    said = (
        pod.waiting[1]
        if pod.waiting[0] != "ImagePullBackOff"
        else _event(pod, facts, "Failed", "pull") or pod.waiting[1]
    )
    return _problem(
        pod,
        f"the image {pod.image} cannot be pulled: {_image_reason(said)}",
        "correct image in job.yaml, push it, or let the nodes pull it (pod.imagePullSecrets)",
        when=pod.created,
        waiting=True,
    )


def _image_reason(text: str) -> str:
    low = text.lower()
    for sign, reason in (
        ("not found", "there is no such image"),
        ("does not exist", "there is no such image"),
        ("unauthorized", "the registry refuses the nodes"),
        ("denied", "the registry refuses the nodes"),
        ("no basic auth", "the registry refuses the nodes"),
        ("no such host", "the registry's name is unknown to the nodes"),
        ("timeout", "the registry does not answer"),
        ("connection refused", "the registry does not answer"),
        ("invalid", "this is not the name of an image"),
        ("couldn't parse", "this is not the name of an image"),
    ):
        if sign in low:
            return reason
    return _one(text)


def _unscheduled(pod: Pod, facts: Facts) -> Problem | None:
    condition = pod.conditions.get("PodScheduled", {})
    if condition.get("status") != "False" or pod.phase != "Pending":
        return None
    message = condition.get("message", "")
    claim = re.search(r'persistentvolumeclaim "([^"]+)" not found', message)
    if claim:
        what, fix = f"the claim {claim[1]} is not there", "create it, or name another in volume.claim"
    elif "unbound immediate PersistentVolumeClaims" in message or "volume node affinity" in message:
        said = _claim_event(facts) or _one(message)
        what = f"its volume is not bound: {said}"
        fix = "look at `kubectl describe pvc`: the class must exist and allow ReadWriteMany"
    else:
        what, fix = f"no node takes it: {_shortage(message, facts)}", "lower cpu or memory in job.yaml, or add nodes"
    return _problem(pod, what, fix, when=moment(condition.get("lastTransitionTime")) or pod.created, waiting=True)


def _shortage(message: str, facts: Facts) -> str:
    """Node by node where we may look at nodes, else what the scheduler says: `0/3 nodes are available: 3 Insufficient cpu.`"""
    if facts.rooms and facts.template:
        cpu, memory = capacity.requests(facts.template)
        if said := capacity.shortages(facts.rooms, cpu, memory):
            return said
    return _one(message.partition(" preemption:")[0])


def _volume(pod: Pod, facts: Facts) -> Problem | None:
    if pod.phase != "Pending" or not pod.node or (pod.waiting and pod.waiting[0] != "ContainerCreating"):
        return None
    said = _event(pod, facts, "FailedMount") or _event(pod, facts, "FailedAttachVolume")
    if not said:
        return None
    return _problem(
        pod,
        f"a volume cannot be mounted on node {pod.node}: {_one(said)}",
        "see that the file system behind the claim can be reached from the nodes",
        when=pod.created,
        waiting=True,
    )


def _not_made(pod: Pod, facts: Facts) -> Problem | None:
    """A container that Kubernetes cannot start: it waits with such a reason, or ended with 128 before our code ran."""
    if pod.waiting and pod.waiting[0] in ("CreateContainerConfigError", "CreateContainerError", "RunContainerError"):
        what, when = pod.waiting[1], pod.created
    elif pod.end and pod.end.reason in ("StartError", "ContainerCannotRun"):
        what, when = pod.end.message, pod.end.time
    else:
        return None
    fix = "is image the runtime image, and pod: right?" if "not found" in what else "look at pod: in job.yaml"
    return _problem(pod, f"the container cannot start: {_one(what)}", fix, when=when, waiting=pod.end is None)


_SIGNALS = {137: "killed (SIGKILL)", 139: "crashed (SIGSEGV)", 134: "aborted (SIGABRT)", 143: "told to stop (SIGTERM)"}


def _failed(pod: Pod, facts: Facts) -> Problem | None:
    if not pod.end or pod.end.code == 0:
        return None
    report = pod.end.report
    if report:
        return _ended(pod, _one(report.cause), reasons.pod_advice(report.reason, pod.end.code) if report.first else "")
    what = _SIGNALS.get(pod.end.code, f"ended with exit code {pod.end.code}") + " without giving a cause"
    return _ended(pod, what, reasons.POD_ADVICE.get(pod.end.code, ""))


RULES: tuple[Callable[[Pod, Facts], Problem | None], ...] = (
    _out_of_memory,
    _evicted,
    _not_made,
    _failed,
    _disrupted,
    _lost_node,
    _no_node,
    _image,
    _unscheduled,
    _volume,
)


def last_event(pod: Pod, events: Sequence[Object]) -> str:
    """The newest thing Kubernetes said about a pod, in one short line."""
    mine = [event for event in events if event.get("involvedObject", {}).get("uid") == pod.uid]
    if not mine:
        return ""
    newest = max(mine, key=lambda event: (_event_time(event), event["metadata"].get("resourceVersion", "")))
    return f"{newest.get('reason', '')}: {_one(newest.get('message', ''))}"


def _event(pod: Pod, facts: Facts, reason: str, word: str = "") -> str:
    """The newest of this reason about a pod whose message has the word."""
    for event in sorted(facts.events, key=_event_time, reverse=True):
        if event.get("involvedObject", {}).get("uid") == pod.uid and event.get("reason") == reason:
            message = str(event.get("message", ""))
            if word in message:
                return message
    return ""


def _claim_event(facts: Facts) -> str:
    for event in sorted(facts.events, key=_event_time, reverse=True):
        about = event.get("involvedObject", {})
        if about.get("kind") == "PersistentVolumeClaim" and event.get("reason") in (
            "ProvisioningFailed",
            "FailedBinding",
        ):
            return f"{about.get('name')}: {_one(event.get('message', ''))}"
    return ""


def _event_time(event: Object) -> str:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((time for time in times if time), event.get("metadata", {}).get("creationTimestamp") or "")


def _one(text: str, longest: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"
