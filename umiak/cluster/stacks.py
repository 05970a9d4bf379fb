"""The cluster's stack in CloudFormation: looked at, planned, carried out, watched. What to do with it is decided elsewhere."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import yaml

from umiak.cluster import states, waiting
from umiak.cluster.aws import Aws, AwsError, DeniedError
from umiak.errors import InputError, RetryError, UmiakError
from umiak.spec.cluster import ClusterSpec

# Our change sets have this name, by which a stack that is only a plan is known as ours.
CHANGE_SET = "umiak"
PLAN_SECONDS, WORK_SECONDS = 300.0, 5400.0
KIND = "AWS::CloudFormation::Stack"
_BEGINNINGS = {"REVIEW_IN_PROGRESS", "CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS"}


@dataclass(frozen=True)
class Stack:
    id: str
    name: str
    status: str
    ours: bool
    created: datetime
    protected: bool = False
    outputs: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    id: str
    title: str
    kind: str
    status: str
    reason: str
    time: datetime

    @property
    def of_stack(self) -> bool:
        return self.kind == KIND

    @property
    def is_failure(self) -> bool:
        """Of a resource, by its own fault."""
        return self.status.endswith("_FAILED") and not self.of_stack and "cancelled" not in self.reason.lower()


@dataclass(frozen=True)
class Planned:
    """A change set that can be carried out. `changes`: (action, title, type, whether AWS replaces it)."""

    changes: tuple[tuple[str, str, str, bool], ...]


def find(aws: Aws, name: str) -> Stack | None:
    """The stack of that name or id. Ours is known by the metadata in its template, so it may have been deployed by anyone."""
    try:
        found = aws.call("cloudformation", "DescribeStacks", StackName=name)["Stacks"][0]
        status = found["StackStatus"]
        # It may be gone before the second question.
        ours = _is_ours(aws, found["StackName"], status)
    except AwsError as error:
        if error.code == "ValidationError":
            return None
        raise
    if status == "DELETE_COMPLETE":
        return None
    return Stack(
        id=found["StackId"],
        name=found["StackName"],
        status=status,
        ours=ours,
        created=found["CreationTime"],
        protected=found.get("EnableTerminationProtection", False),
        outputs={entry["OutputKey"]: entry["OutputValue"] for entry in found.get("Outputs", [])},
        parameters={entry["ParameterKey"]: entry["ParameterValue"] for entry in found.get("Parameters", [])},
    )


def _is_ours(aws: Aws, name: str, status: str) -> bool:
    if status == "REVIEW_IN_PROGRESS":
        return change_set(aws, name) is not None
    summary = aws.call("cloudformation", "GetTemplateSummary", StackName=name)
    metadata = json.loads(summary.get("Metadata") or "{}")
    mine: bool = metadata.get("Umiak", {}).get("Cluster") == name
    return mine


def refuse_foreign(spec: ClusterSpec, stack: Stack | None) -> None:
    if stack and not stack.ours:
        raise InputError(
            f"a stack named {spec.name} exists in {spec.region} ({stack.status}) and is not an umiak cluster; "
            "it is not touched: choose another name"
        )


def template(aws: Aws, stack: Stack) -> dict[str, Any]:
    """The template it was made from, as it was sent."""
    body = aws.call("cloudformation", "GetTemplate", StackName=stack.id, TemplateStage="Original")["TemplateBody"]
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    parsed: dict[str, Any] = yaml.load(body, Loader=loader) if isinstance(body, str) else body
    return parsed


def resources(aws: Aws, stack: str) -> dict[str, dict[str, Any]]:
    """By title: what CloudFormation says about each. By a stack's id also of one that was deleted, for 90 days."""
    answer = aws.call("cloudformation", "DescribeStackResources", StackName=stack)
    return {entry["LogicalResourceId"]: entry for entry in answer["StackResources"]}


@dataclass(frozen=True)
class Deleted:
    id: str
    created: datetime
    deleted: datetime


def last_deleted(aws: Aws, name: str) -> Deleted | None:
    """The stack of that name that was deleted last; CloudFormation remembers it for 90 days."""
    summaries = aws.each("cloudformation", "ListStacks", "StackSummaries", StackStatusFilter=["DELETE_COMPLETE"])
    found = [
        Deleted(entry["StackId"], entry["CreationTime"], entry["DeletionTime"])
        for entry in summaries
        if entry["StackName"] == name
    ]
    return max(found, key=lambda entry: entry.deleted, default=None)


def change_set(aws: Aws, name: str) -> dict[str, Any] | None:
    try:
        return aws.call("cloudformation", "DescribeChangeSet", StackName=name, ChangeSetName=CHANGE_SET)
    except AwsError as error:
        if error.code in ("ChangeSetNotFound", "ChangeSetNotFoundException", "ValidationError"):
            return None
        raise


def discard(aws: Aws, name: str) -> None:
    """Our change set, if there is one."""
    if change_set(aws, name) is not None:
        aws.call("cloudformation", "DeleteChangeSet", StackName=name, ChangeSetName=CHANGE_SET)


def _discard_with_stack(aws: Aws, name: str) -> None:
    """A stack that is only a plan of ours. Without its plan nothing would tell that it is ours, so both go at once."""
    stack = find(aws, name)
    if stack and stack.ours and stack.status == "REVIEW_IN_PROGRESS":
        watch(aws, stack.id, delete(aws, stack), lambda event, began: None)


def plan(aws: Aws, name: str, body: str, parameters: dict[str, str], *, new: bool) -> Planned | None:
    """A change set for that template; None when there is nothing to change. An old one of ours is replaced."""
    if new:
        _discard_with_stack(aws, name)
    else:
        discard(aws, name)
    optional = {"OnStackFailure": "ROLLBACK"} if new else {}
    with _asked_twice("AlreadyExistsException"):
        aws.call(
            "cloudformation",
            "CreateChangeSet",
            StackName=name,
            ChangeSetName=CHANGE_SET,
            ChangeSetType="CREATE" if new else "UPDATE",
            TemplateBody=body,
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
            Capabilities=["CAPABILITY_NAMED_IAM"],
            **optional,
        )
    for _ in waiting.pauses(PLAN_SECONDS, "the plan (CloudFormation's change set)"):
        made = change_set(aws, name)
        if made is None:
            raise RetryError(f"the plan for {name} is gone: somebody else works on this stack; try again")
        if made["Status"] == "CREATE_COMPLETE":
            return Planned(tuple(_changes(made)))
        if made["Status"] == "FAILED":
            reason = "; ".join([made.get("StatusReason", ""), *_validation_errors(aws, name)])
            if not new:
                # By its change set a stack that is only a plan is known as ours, so there it stays; the next plan replaces it.
                discard(aws, name)
            if "didn't contain changes" in reason or "No updates are to be performed" in reason:
                return None
            raise UmiakError(f"CloudFormation cannot plan this: {reason}")
    raise AssertionError("pauses end with an error")


def _validation_errors(aws: Aws, name: str) -> list[str]:
    """What CloudFormation found before it began; a change set's own reason only says where to ask for it."""
    where = {"StackName": name, "ChangeSetName": CHANGE_SET}
    try:
        found = aws.call("cloudformation", "DescribeEvents", **where, Filters={"FailedEvents": True})["OperationEvents"]
    except (AwsError, DeniedError):
        return []
    return [
        f"{entry.get('LogicalResourceId', name)}: {entry['ValidationStatusReason']}"
        for entry in found
        if entry.get("EventType") == "VALIDATION_ERROR" and entry.get("ValidationStatusReason")
    ]


@contextlib.contextmanager
def _asked_twice(*codes: str) -> Iterator[None]:
    """When an answer is lost on the way, boto3 asks again, and AWS says that it has done it already."""
    try:
        yield
    except AwsError as error:
        if error.code not in codes:
            raise


def _changes(made: dict[str, Any]) -> Iterator[tuple[str, str, str, bool]]:
    changes = [entry["ResourceChange"] for entry in made.get("Changes", [])]
    replaced = {change["LogicalResourceId"] for change in changes if change.get("Replacement") == "True"}
    # CloudFormation says "Conditional" where the value of another resource's attribute is not known before. It changes only
    # if that resource is replaced: then this one is, too, and so on.
    while more := {c["LogicalResourceId"] for c in changes if _follows(c, replaced)} - replaced:
        replaced |= more
    for change in changes:
        title = change["LogicalResourceId"]
        yield change["Action"], title, change["ResourceType"], change["Action"] == "Modify" and title in replaced


def _follows(change: dict[str, Any], replaced: set[str]) -> bool:
    """Whether a change that may be a replacement is one, given those that are. Without a cause that is known, it counts."""
    if change.get("Replacement") != "Conditional":
        return False
    causes = [
        detail.get("CausingEntity", "")
        for detail in change.get("Details", [])
        if detail.get("Target", {}).get("RequiresRecreation", "Never") != "Never"
    ]
    return not causes or any(not cause or cause.partition(".")[0] in replaced for cause in causes)


def newest_event(aws: Aws, stack: str) -> str | None:
    first = next(aws.each("cloudformation", "DescribeStackEvents", "StackEvents", StackName=stack), None)
    return first["EventId"] if first else None


def execute(aws: Aws, name: str) -> str | None:
    """Carry the plan out. Gives the last event before that, for `watch`."""
    before = newest_event(aws, name)
    # If it was not us who began it, `watch` sees that something happens, or nothing within its time.
    with _asked_twice("ChangeSetNotFound", "ChangeSetNotFoundException", "InvalidChangeSetStatus"):
        aws.call("cloudformation", "ExecuteChangeSet", StackName=name, ChangeSetName=CHANGE_SET)
    return before


def delete(aws: Aws, stack: Stack, retain: tuple[str, ...] = ()) -> str | None:
    before = newest_event(aws, stack.id)
    optional: dict[str, Any] = {"RetainResources": list(retain)} if retain else {}
    aws.call("cloudformation", "DeleteStack", StackName=stack.id, **optional)
    return before


def events(aws: Aws, stack: str, after: str | None) -> list[Event]:
    """Oldest first: those after an event, or those of what the stack did last."""
    found = []
    for entry in aws.each("cloudformation", "DescribeStackEvents", "StackEvents", StackName=stack):
        if entry["EventId"] == after:
            break
        event = Event(
            entry["EventId"],
            entry["LogicalResourceId"],
            entry["ResourceType"],
            entry["ResourceStatus"],
            entry.get("ResourceStatusReason", ""),
            entry["Timestamp"],
        )
        found.append(event)
        if after is None and event.of_stack and event.status in _BEGINNINGS:
            break
    return found[::-1]


@dataclass(frozen=True)
class StackResult:
    """How an operation of a stack ended, and what happened in it."""

    status: str
    events: tuple[Event, ...]

    @property
    def first_failure(self) -> Event | None:
        return next((event for event in self.events if event.is_failure), None)


def watch(
    aws: Aws,
    stack: str,
    after: str | None,
    show: Callable[[Event, datetime | None], None],
    meanwhile: Callable[[], None] = lambda: None,
) -> StackResult:
    """Until it is at rest. `show` gets each event and when that resource began; `meanwhile` is done at every look."""
    seen: list[Event] = []
    began: dict[str, datetime] = {}
    patience = waiting.Patience()
    for moved in waiting.pauses(WORK_SECONDS, f"the stack {stack.rpartition('/')[0].rpartition('/')[2] or stack}"):
        try:
            meanwhile()
            # Only what is new: the event seen last ends the reading.
            fresh = events(aws, stack, seen[-1].id if seen else after)
        except RetryError as error:
            patience.bear(error)
            continue
        patience.calm()
        for event in fresh:
            if event.status.endswith("_IN_PROGRESS"):
                began.setdefault(event.title, event.time)
            show(event, began.get(event.title))
            if not event.status.endswith("_IN_PROGRESS"):
                began.pop(event.title, None)
        seen += fresh
        if fresh:
            moved()
        own = next((event for event in reversed(seen) if event.of_stack), None)
        if own and not states.at_work(own.status) and own.status != "REVIEW_IN_PROGRESS":
            return StackResult(own.status, tuple(seen))
    raise AssertionError("pauses end with an error")


def was_whole(aws: Aws, stack: Stack) -> bool:
    """Whether it has been complete once."""
    every = aws.each("cloudformation", "DescribeStackEvents", "StackEvents", StackName=stack.id)
    recent = itertools.islice(every, 5000)
    return any(entry["ResourceType"] == KIND and entry["ResourceStatus"] in states.WHOLE for entry in recent)
