"""A job on Kubernetes as text: its plan, its status, its failures, its end. Pure; who prints it is umiak/cli/job.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from umiak.display.progress import Progress, duration, number

if TYPE_CHECKING:
    from umiak.jobs.diagnosis import Problem
    from umiak.jobs.listing import Line
    from umiak.jobs.plan import Plan
    from umiak.jobs.status import Status, Worker

# More workers than this are shown only where they differ from the others.
FEW = 20


def plan(made: Plan, context: str) -> Iterator[str]:
    spec = made.spec
    yield f"job {spec.name} in namespace {made.namespace} (context {context})"
    yield f"  {spec.workers} workers of {spec.cpu} CPU and {spec.memory}, image {spec.image}"
    packed = f"{len(made.config) / 1000:,.1f} kB packed"
    yield f"  {spec.entry} from {Path(spec.config)} ({packed}), {spec.passes} passes, {spec.mode}"
    new = f", which is made with {spec.volume.size}" if spec.volume.size else ""
    yield f"  output in {spec.output} of claim {spec.claim}{new}"


def listing(jobs: Sequence[Line], where: str) -> Iterator[str]:
    if not jobs:
        yield f"no jobs in {where}"
        return
    rows = [("NAME", "NAMESPACE", "STATE", "WORKERS", "AGE")]
    now = datetime.now(UTC)
    rows += [(j.name, j.namespace, j.state, f"{j.ready}/{j.workers}", _ago(j.created, now)) for j in jobs]
    yield from _columns(rows)


def status(seen: Status, now: datetime) -> Iterator[str]:
    yield head(seen, now)
    progress = gathered(seen)
    if text := training(progress):
        yield text
    yield ""
    rows = [("WORKER", "PHASE", "PASS", "SAMPLES/S", "NODE", "POD", "LAST EVENT")]
    rows += [
        (*row(worker, seen, progress), worker.node or "-", worker.pod or "-", last_event(worker))
        for worker in shown(seen, progress)
    ]
    yield from _columns(rows)
    if len(seen.workers) > FEW:
        yield f"{len(seen.workers) - (len(rows) - 1)} more are like worker {rows[1][0]}"
    if seen.problems:
        yield ""
        yield from failures(seen)
    if seen.state == "done":
        yield ""
        yield from end(seen)
    elif warning := expiring(seen, now):
        yield ""
        yield warning


def expiring(seen: Status, now: datetime) -> str:
    """A warning if the job's certificates end soon: then no pod can join any more."""
    until = seen.expires_soon(now)
    if until is None:
        return ""
    renew = f"`umiak job cancel {seen.name} -n {seen.namespace}` and `umiak job submit`"
    return f"warning: the job's certificates expire on {until:%Y-%m-%d}; {renew} renew them, and nothing is lost"


def failures(seen: Status, with_log: bool = True) -> Iterator[str]:
    """The first failure, what to do about it, its last words, and who failed because of it."""
    over = seen.state in ("failed", "cancelled", "done")
    causes = [problem for problem in seen.problems if problem.because_of is None]
    followers = [problem for problem in seen.problems if problem.because_of is not None]
    now = [problem for problem in causes if over or not problem.replaced]
    past = [problem for problem in causes if problem not in now]
    title = "first failure"
    if not now and past:
        title, now, past = "earlier, replaced since", past[:1], past[1:]
    groups = _alike(now)
    for place, group in enumerate(groups):
        yield from _failure(group, title if place == 0 else "also", with_log and place == 0)
    if followers:
        yield f"because of it: {', '.join(_who(each) for each in followers[:FEW])}{_more(followers)}"
    if past:
        yield f"replaced since: {', '.join(_who(each) for each in past[:FEW])}{_more(past)}"
    if seen.state == "failed" and not seen.problems:
        yield f"failed: {seen.message}; its pods are gone, their logs are in {seen.output} of claim {seen.claim}"


def _alike(found: Sequence[Problem]) -> list[list[Problem]]:
    """Workers with the same trouble together, in the order of the first of each."""
    groups: dict[tuple[str, str], list[Problem]] = {}
    for problem in found:
        groups.setdefault((problem.what, problem.fix), []).append(problem)
    return list(groups.values())


def _failure(group: Sequence[Problem], title: str, with_log: bool) -> Iterator[str]:
    first = group[0]
    where = f" on node {first.node}" if first.node else ""
    when = f" at {first.when.astimezone(UTC):%H:%M:%S} UTC" if first.when else ""
    code = f", exit code {first.code}" if first.code is not None else ""
    more = f" and {len(group) - 1} more ({_numbers(group[1:])})" if len(group) > 1 else ""
    waits = "" if not first.waiting else " wait" if more else " waits"
    yield f"{title}: worker {first.worker}{more}{waits} (pod {first.pod}{where}){when}{code}"
    yield f"  {first.what}"
    if first.fix:
        yield f"  → {first.fix}"
    if first.log and with_log:
        yield "  its last lines:"
        yield from (f"    {line}" for line in first.log.splitlines())


def _numbers(found: Sequence[Problem]) -> str:
    shown = ", ".join(str(each.worker) for each in found[:FEW])
    return shown + ("…" if len(found) > FEW else "")


def _who(problem: Problem) -> str:
    code = f" (exit code {problem.code})" if problem.code is not None else ""
    return f"worker {problem.worker}{code}"


def _more(found: Sequence[Problem]) -> str:
    return f" and {len(found) - FEW} more" if len(found) > FEW else ""


def end(seen: Status) -> Iterator[str]:
    if seen.state == "done":
        took = (
            duration((seen.finished - seen.started).total_seconds()) if seen.finished and seen.started else "some time"
        )
        yield f"{seen.name}: done in {took}; the model is in {seen.output} of claim {seen.claim}"
        yield f"next: umiak output ls {seen.name} -n {seen.namespace}"
    elif seen.state == "cancelled":
        yield f"{seen.name}: cancelled; `umiak job submit` of the same job file resumes from its last checkpoint"
    else:
        yield f"{seen.name}: {seen.state}"
        yield from failures(seen)


def head(seen: Status, now: datetime) -> str:
    since = f"  submitted {_ago(seen.created, now)} ago" if seen.created else ""
    return f"{seen.name}  {seen.state}  {len(seen.workers)} workers{since}  namespace {seen.namespace}"


def gathered(seen: Status) -> Progress:
    progress = Progress()
    for told in seen.told:
        progress.apply(told.event)
    return progress


def training(progress: Progress) -> str:
    parts = []
    event = progress.round
    if event:
        parts = [f"pass {event.pass_id}", f"batch {event.batch}"]
        parts += [f"{event.samples_per_s:,.0f} samples/s", f"cost {number(event.cost)}"]
    elif progress.passes:
        parts = [f"pass {max(progress.passes)} done"]
    if progress.checkpoint:
        parts.append(f"checkpoint of round {progress.checkpoint.round:,}")
    if progress.restarts:
        parts.append(f"{len(progress.restarts)} restarts, the last: {progress.restarts[-1].cause}")
    return "  ".join(parts)


def row(worker: Worker, seen: Status, progress: Progress) -> tuple[str, str, str, str]:
    busy = worker.phase == "running" and bool(progress.round)
    phase = progress.phases.get(worker.worker, "training" if busy else "running")
    event = progress.round if busy else None
    # Rounds are of all workers together, so each has its even share of the samples.
    rate = f"{event.samples_per_s / len(seen.workers):,.0f}" if event else "-"
    passed = str(event.pass_id) if event else str(max(progress.passes)) if progress.passes else "-"
    return str(worker.worker), phase if worker.phase == "running" else worker.phase, passed, rate


def last_event(worker: Worker) -> str:
    failed = f"replaced {worker.failures}×; " if worker.failures and worker.phase != "failed" else ""
    return _short(failed + worker.event) or "-"


def shown(seen: Status, progress: Progress) -> list[Worker]:
    """All of a small job; of a large one the first, and those that are not like it."""
    if len(seen.workers) <= FEW:
        return list(seen.workers)
    first = seen.workers[0]
    others = [worker for worker in seen.workers[1:] if worker.phase != first.phase or worker.failures]
    return [first, *others[: FEW - 1]]


def _short(text: str, longest: int = 80) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _ago(when: datetime | None, now: datetime) -> str:
    return duration(max(0.0, (now - when).total_seconds())) if when else "-"


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
