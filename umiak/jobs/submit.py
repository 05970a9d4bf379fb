"""Acts on a plan: looks for what would stop it, creates everything or nothing, and starts the job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from umiak.errors import InputError, RetryError, UmiakError
from umiak.jobs import capacity
from umiak.jobs.data import require_account
from umiak.jobs.manifests import (
    CANCELLED_ANNOTATION,
    FINGERPRINT_ANNOTATION,
    LABEL,
    RENEWED_ANNOTATION,
    RESUMED_ANNOTATION,
    Keys,
)
from umiak.jobs.plan import Plan
from umiak.jobs.status import certificates_until
from umiak.kube.api import Api
from umiak.kube.nodes import node
from umiak.kube.objects import Object, moment, path
from umiak.kube.refusals import ApiError, no_namespace

# A Job that is suspended though nobody cancelled it: for so long another submit may still be busy with it.
BUSY_SECONDS = 60
# A job that is resumed gets new certificates if its own end within this time.
RENEW = timedelta(days=90)
NOBODY = "00000000-0000-0000-0000-000000000000"

Action = Literal["create", "resume", "replace"]


@dataclass(frozen=True)
class Found:
    """What the cluster said before anything was sent."""

    action: Action
    warnings: tuple[str, ...]


def look(api: Api, plan: Plan, now: datetime) -> Found:
    """Everything that can be known to be wrong, as one error; what may turn out well, as warnings."""
    space, spec = plan.namespace, plan.spec
    _namespace(api, space)
    action = existing(api.find(path("Job", space, spec.name)), plan, now)
    warnings = []
    claim = api.find(path("PersistentVolumeClaim", space, spec.claim))
    if plan.claim is None:
        if claim is None:
            raise InputError(
                f"volume.claim: there is no claim {spec.claim!r} in namespace {space}: `umiak cluster up` makes efsvol; "
                "name another, or write volume.size to have one made"
            )
        modes = claim.get("spec", {}).get("accessModes") or []
        if spec.workers > 1 and "ReadWriteMany" not in modes:
            warnings.append(
                f"the claim {spec.claim} is {', '.join(modes)}, not ReadWriteMany: workers on a second node will not start"
            )
    elif claim is not None and claim["metadata"].get("labels", {}).get(LABEL) != spec.name:
        raise InputError(
            f"the claim {spec.claim} exists and is not this job's: name it in volume.claim, or rename the job"
        )
    if spec.service_account:
        require_account(api, space, spec.service_account, "service_account")
    if action != "resume" and (short := _room(api, plan)):
        warnings.append(short)
    return Found(action, tuple(warnings))


def _namespace(api: Api, name: str) -> None:
    try:
        if api.find(path("Namespace", None, name)) is None:
            raise InputError(no_namespace(name))
    except ApiError as error:
        # Many may use a namespace without being allowed to look at it; creating the Job will tell.
        if error.code != 403:
            raise


def existing(job: Object | None, plan: Plan, now: datetime) -> Action:
    """What a Job of that name means for this submit."""
    if job is None:
        return "create"
    name, space = plan.spec.name, plan.namespace
    meta, remove = job["metadata"], f"umiak job delete {plan.spec.name} -n {plan.namespace}"
    if meta.get("labels", {}).get(LABEL) != name:
        raise InputError(f"a Job {name!r} that is not umiak's exists in namespace {space}: choose another name")
    if meta.get("deletionTimestamp"):
        raise RetryError(f"the job {name!r} is being deleted: wait a moment and submit again")
    ended = {each["type"] for each in job.get("status", {}).get("conditions") or [] if each["status"] == "True"}
    annotations = meta.get("annotations") or {}
    if ended & {"Complete", "Failed"}:
        how = "failed" if "Failed" in ended else "done"
        raise InputError(
            f"the job {name!r} exists in namespace {space} and is {how}: remove it first with `{remove}` "
            "(its output stays, and a new submit resumes from it), or choose another name"
        )
    if not job["spec"].get("suspend"):
        raise InputError(
            f"the job {name!r} is already running in namespace {space}: see `umiak job status {name} -n {space}`, "
            f"cancel or delete it (`{remove}`), or choose another name"
        )
    if CANCELLED_ANNOTATION in annotations:
        if annotations.get(FINGERPRINT_ANNOTATION) == plan.fingerprint:
            return "resume"
        raise InputError(
            f"the job {name!r} was cancelled, and its job file or config has changed since: `{remove}` first; "
            "its output stays, and a new submit resumes from it if the config is still the same"
        )
    made = moment(meta.get("creationTimestamp"))
    if made and (now - made).total_seconds() < BUSY_SECONDS:
        raise RetryError(f"the job {name!r} is just being submitted, or its submit was killed: try again in a minute")
    return "replace"


def _room(api: Api, plan: Plan) -> str | None:
    """A warning if the nodes cannot hold all workers; nothing where we may not look."""
    template = plan.job["spec"]["template"]["spec"]
    try:
        nodes = [node(item) for item in api.items(path("Node", None))]
        pods = api.items(path("Pod", None), fieldSelector="status.phase!=Succeeded,status.phase!=Failed")
    except ApiError as error:
        if error.code == 403:
            return None
        raise
    return capacity.warning(capacity.rooms(nodes, pods, template), template, plan.spec.workers)


def check(api: Api, plan: Plan, keys: Keys) -> None:
    """--dry-run=server: the API server's opinion of every object; nothing is kept."""
    for made in plan.everything(NOBODY, keys):
        _create(api, made, dry_run=True)


def act(api: Api, plan: Plan, action: Action, keys: Keys) -> None:
    """Create and start, or resume. If anything refuses, what was made is removed again."""
    where = path("Job", plan.namespace, plan.spec.name)
    if action == "resume":
        now = datetime.now(UTC)
        annotations = {CANCELLED_ANNOTATION: None, RESUMED_ANNOTATION: now.isoformat(timespec="seconds")}
        job = api.get(where)
        until = certificates_until(job)
        if until is not None and until - now < RENEW:
            _renew(api, plan, job, keys)
            annotations[RENEWED_ANNOTATION] = annotations[RESUMED_ANNOTATION]
        api.patch(where, {"metadata": {"annotations": annotations}, "spec": {"suspend": False}})
        return
    if action == "replace":
        remove(api, api.get(where))
    undo: list[Object] = []
    try:
        if plan.claim and api.find(_place(plan.claim)) is None:
            undo.append(_create(api, plan.claim))
        job = _create(api, plan.job)
        undo.append(job)
        for made in plan.owned(job["metadata"]["uid"], keys):
            kept = _create(api, made)
            undo.append(kept)
        api.patch(where, {"spec": {"suspend": False}})
    except BaseException as error:
        left = []
        for made in reversed(undo):
            try:
                remove(api, made)
            except UmiakError:
                left.append(f"{made['kind']} {made['metadata']['name']}")
        if left:
            raise UmiakError(f"{error}; and could not remove {', '.join(left)} again: delete by hand") from error
        raise


def _renew(api: Api, plan: Plan, job: Object, keys: Keys) -> None:
    """Put new certificates and a new token in the place of the old. No pod of a cancelled job is left to have the old ones."""
    (secret,) = (made for made in plan.owned(job["metadata"]["uid"], keys) if made["kind"] == "Secret")
    try:
        api.delete(_place(secret))
    except ApiError as error:
        if error.code != 404:
            raise
    _create(api, secret)


def _place(made: Object) -> str:
    return path(made["kind"], made["metadata"]["namespace"], made["metadata"]["name"])


def _create(api: Api, made: Object, dry_run: bool = False) -> Object:
    kind, name, space = made["kind"], made["metadata"]["name"], made["metadata"]["namespace"]
    try:
        answer = api.create(path(kind, space), made, dry_run=dry_run)
    except ApiError as error:
        if error.code == 409:
            raise InputError(
                f"a {kind} {name!r} exists in namespace {space} already: delete it (kubectl delete -n {space} "
                f"{kind.lower()} {name}), or choose another name"
            ) from None
        raise
    # The API leaves the kind out of some answers.
    return {**answer, "kind": kind}


def remove(api: Api, made: Object) -> None:
    """Delete exactly this object, not one that took its name since."""
    options = {"preconditions": {"uid": made["metadata"]["uid"]}, "propagationPolicy": "Background"}
    try:
        api.delete(_place({"kind": made.get("kind", "Job"), "metadata": made["metadata"]}), **options)
    except ApiError as error:
        if error.code not in (404, 409):
            raise
