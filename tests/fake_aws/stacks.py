"""CloudFormation's API: stacks, change sets, events. What a stack does when it is at work is `operations`.

A type, property or function that is not modelled fails the stack and the test; so does a parameter of a call.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.fake_aws import plans, templates
from tests.fake_aws.calls import AwsFault, Call
from tests.fake_aws.operations import Break, Operations, Stack

if TYPE_CHECKING:
    from tests.fake_aws.server import FakeAws

__all__ = ["Break", "Stack", "Stacks"]

PAGE = 15
# Seconds until a change set is ready.
READY = 5.0
NOTHING = "The submitted information didn't contain changes. Submit different information to create a change set."
# User guide, "Validate stack deployments": the reasons are only in the events of the operation.
EARLY = "The following hook(s)/validation failed: [AWS::EarlyValidation::ResourceExistenceCheck]. Use the DescribeEvents API."
# Stacks that may be changed, and those at rest, which may be deleted.
CHANGEABLE = {"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"}


@dataclass
class ChangeSet:
    name: str
    stack: Stack
    kind: str
    body: str
    parameters: dict[str, str]
    on_failure: str
    changes: list[dict[str, Any]] = field(default_factory=list)
    status: str = "CREATE_PENDING"
    reason: str = ""
    execution: str = "UNAVAILABLE"


class Stacks:
    def __init__(self, fake: FakeAws) -> None:
        self.fake = fake
        self.operations = Operations(fake)
        self.stacks: dict[tuple[str, str], Stack] = {}
        self.gone: list[Stack] = []
        self.sets: dict[tuple[str, str], ChangeSet] = {}
        # Arranged by tests: what early validation objects to, by title.
        self.early: dict[str, str] = {}
        self._numbers = itertools.count(1)

    def handlers(self) -> dict[tuple[str, str], Callable[[Call], Any]]:
        where = ("StackName", "ChangeSetName")
        table: dict[str, tuple[Callable[[Call], Any], tuple[str, ...]]] = {
            "ContinueUpdateRollback": (self.continue_rollback, ("StackName",)),
            "CreateChangeSet": (
                self.create_change_set,
                (
                    *where,
                    "ChangeSetType",
                    "TemplateBody",
                    "Parameters",
                    "Capabilities",
                    "OnStackFailure",
                    "Description",
                ),
            ),
            "DeleteChangeSet": (self.delete_change_set, where),
            "DeleteStack": (self.delete, ("StackName", "RetainResources")),
            "DescribeChangeSet": (self.describe_change_set, where),
            "DescribeEvents": (self.operation_events, (*where, "Filters", "NextToken")),
            "DescribeStackEvents": (self.events, ("StackName", "NextToken")),
            "DescribeStackResources": (self.describe_resources, ("StackName",)),
            "DescribeStacks": (self.describe, ("StackName",)),
            "ExecuteChangeSet": (self.execute_change_set, where),
            "GetTemplate": (self.template, ("StackName", "TemplateStage")),
            "GetTemplateSummary": (self.summary, ("StackName",)),
            "ListStacks": (self.listed, ("StackStatusFilter", "NextToken")),
            "UpdateTerminationProtection": (self.protect, ("StackName", "EnableTerminationProtection")),
            "ValidateTemplate": (self.validate, ("TemplateBody",)),
        }
        return {("cloudformation", name): _only(handler, known) for name, (handler, known) in table.items()}

    def describe(self, call: Call) -> dict[str, Any]:
        stack = self._stack(call, gone=True)
        entry: dict[str, Any] = {
            "StackName": stack.name,
            "StackId": stack.id,
            "StackStatus": stack.status,
            "StackStatusReason": stack.reason,
            "CreationTime": stack.created,
            "EnableTerminationProtection": stack.protected,
            "Parameters": [{"ParameterKey": k, "ParameterValue": v} for k, v in stack.parameters.items()],
        }
        if stack.updated:
            entry["LastUpdatedTime"] = stack.updated
        if stack.status in CHANGEABLE:
            resolver = self.operations.resolver(stack)
            entry["Outputs"] = [
                {"OutputKey": name, "OutputValue": resolver.value(output["Value"])}
                for name, output in templates.parsed(stack.body).get("Outputs", {}).items()
            ]
        return {"Stacks": [entry]}

    def listed(self, call: Call) -> dict[str, Any]:
        """Deleted stacks are shown for 90 days (API reference of ListStacks)."""
        self._bury()
        wanted = call.params["StackStatusFilter"]
        assert wanted == ["DELETE_COMPLETE"], f"a list of {wanted} is not modelled"
        recent = self.fake.clock.now() - timedelta(days=90)
        found = [s for s in self.gone if s.region == call.region and s.deleted and s.deleted > recent]
        first = int(call.params.get("NextToken") or 0)
        entries = [
            {
                "StackId": stack.id,
                "StackName": stack.name,
                "StackStatus": stack.status,
                "CreationTime": stack.created,
                "DeletionTime": stack.deleted,
            }
            for stack in found[::-1][first : first + PAGE]
        ]
        more = {"NextToken": str(first + PAGE)} if first + PAGE < len(found) else {}
        return {"StackSummaries": entries} | more

    def describe_resources(self, call: Call) -> dict[str, Any]:
        stack = self._stack(call, gone=True)
        return {
            "StackResources": [
                {
                    "StackName": stack.name,
                    "StackId": stack.id,
                    "LogicalResourceId": made.title,
                    "PhysicalResourceId": made.physical,
                    "ResourceType": made.kind,
                    "ResourceStatus": made.status,
                    "ResourceStatusReason": made.reason,
                    "Timestamp": made.timestamp,
                }
                for made in stack.made.values()
            ]
        }

    def events(self, call: Call) -> dict[str, Any]:
        """Newest first, in short pages."""
        stack = self._stack(call, gone=True)
        newest = stack.events[::-1]
        first = int(call.params.get("NextToken") or 0)
        entries = [
            {
                "StackId": stack.id,
                "StackName": stack.name,
                "EventId": event.id,
                "LogicalResourceId": event.title,
                "PhysicalResourceId": event.physical,
                "ResourceType": event.kind,
                "ResourceStatus": event.status,
                "Timestamp": event.timestamp,
            }
            | ({"ResourceStatusReason": event.reason} if event.reason else {})
            for event in newest[first : first + PAGE]
        ]
        more = {"NextToken": str(first + PAGE)} if first + PAGE < len(newest) else {}
        return {"StackEvents": entries} | more

    def operation_events(self, call: Call) -> dict[str, Any]:
        return {
            "OperationEvents": [
                {"EventId": f"early-{title}", "EventType": "VALIDATION_ERROR", "LogicalResourceId": title}
                | {"ValidationStatusReason": reason, "ValidationFailureMode": "FAIL"}
                for title, reason in self.early.items()
            ]
        }

    def template(self, call: Call) -> dict[str, Any]:
        return {"TemplateBody": self._stack(call, gone=True).body}

    def summary(self, call: Call) -> dict[str, Any]:
        template = templates.parsed(self._stack(call).body)
        return {
            "Metadata": json.dumps(template.get("Metadata", {})),
            "ResourceTypes": sorted({resource["Type"] for resource in template["Resources"].values()}),
        }

    def validate(self, call: Call) -> dict[str, Any]:
        template = templates.parsed(call.params["TemplateBody"])
        return {
            "Description": template.get("Description", ""),
            "Parameters": [{"ParameterKey": k} for k in template.get("Parameters", {})],
        }

    def create_change_set(self, call: Call) -> dict[str, Any]:
        params, kind = call.params, call.params["ChangeSetType"]
        name = params["StackName"]
        if not re.fullmatch(r"[A-Za-z][-A-Za-z0-9]{0,127}", name):
            raise AwsFault("ValidationError", f"Value '{name}' at 'stackName' failed to satisfy constraint")
        template = templates.parsed(params["TemplateBody"])
        named = any("RoleName" in r.get("Properties", {}) for r in template["Resources"].values())
        if named and "CAPABILITY_NAMED_IAM" not in params.get("Capabilities", []):
            raise AwsFault("InsufficientCapabilitiesException", "Requires capabilities : [CAPABILITY_NAMED_IAM]")
        stack = self.stacks.get((call.region, name))
        before = stack.parameters if stack else {}
        values = templates.parameters(template, params.get("Parameters", []), before)
        for key, declared in template.get("Parameters", {}).items():
            if declared["Type"].startswith("AWS::SSM::"):
                # Looked up for whoever asks, with their permissions.
                person = self.fake.people.by_key[call.key_id]
                ssm = self.fake.client("ssm", person, call.region, via="cloudformation")
                if ssm.get_parameters(Names=[values[key]])["InvalidParameters"]:
                    raise AwsFault(
                        "ValidationError", f"Unable to fetch parameters [{values[key]}] from parameter store"
                    )
        if kind == "CREATE":
            if stack is not None and stack.status != "REVIEW_IN_PROGRESS":
                raise AwsFault("ValidationError", f"Stack [{name}] already exists and cannot be created again")
            if stack is None:
                stack = self._new(call.region, name)
        else:
            assert kind == "UPDATE", f"change sets of type {kind} are not modelled"
            if stack is None:
                raise AwsFault("ValidationError", f"Stack [{name}] does not exist")
            if stack.status not in CHANGEABLE:
                raise AwsFault(
                    "ValidationError", f"Stack:{stack.id} is in {stack.status} state and can not be updated."
                )
        key = (stack.id, params["ChangeSetName"])
        if key in self.sets:
            raise AwsFault("AlreadyExistsException", f"ChangeSet {params['ChangeSetName']} already exists")
        on_failure = params.get("OnStackFailure", "ROLLBACK")
        assert on_failure in ("ROLLBACK", "DO_NOTHING"), f"OnStackFailure={on_failure} is not modelled"
        made = self.sets[key] = ChangeSet(key[1], stack, kind, params["TemplateBody"], values, on_failure)
        made.changes = plans.changes(self.operations.resolver(stack), stack, template, values)
        self.fake.clock.after(READY, lambda: _ready(made, bool(self.early)))
        return {"Id": f"{stack.id}/{made.name}", "StackId": stack.id}

    def _new(self, region: str, name: str) -> Stack:
        stack = Stack(name, region, "", {}, self.fake.clock.now(), number=next(self._numbers))
        self.stacks[region, name] = stack
        self.operations.mark(stack, "REVIEW_IN_PROGRESS", "User Initiated")
        return stack

    def describe_change_set(self, call: Call) -> dict[str, Any]:
        found = self._set(call)
        return {
            "StackName": found.stack.name,
            "StackId": found.stack.id,
            "ChangeSetName": found.name,
            "Status": found.status,
            "StatusReason": found.reason,
            "ExecutionStatus": found.execution,
            "Changes": [{"Type": "Resource", "ResourceChange": change} for change in found.changes],
        }

    def delete_change_set(self, call: Call) -> dict[str, Any]:
        found = self._set(call)
        if found.execution == "EXECUTE_IN_PROGRESS":
            raise AwsFault("InvalidChangeSetStatus", f"ChangeSet [{found.name}] cannot be deleted while it is executed")
        del self.sets[found.stack.id, found.name]
        return {}

    def execute_change_set(self, call: Call) -> dict[str, Any]:
        found = self._set(call)
        if found.execution != "AVAILABLE":
            raise AwsFault(
                "InvalidChangeSetStatus",
                f"ChangeSet [{found.name}] cannot be executed in its current status of [{found.execution}]",
            )
        stack, person = found.stack, self.fake.people.by_key[call.key_id]
        # An executed change set is gone from the stack.
        self.sets = {key: value for key, value in self.sets.items() if value.stack is not stack}
        if found.kind == "CREATE":
            stack.body, stack.parameters = found.body, found.parameters
            self.operations.create(stack, person, found.on_failure)
        else:
            self.operations.update(stack, found.body, found.parameters, person)
        return {}

    def continue_rollback(self, call: Call) -> dict[str, Any]:
        stack = self._stack(call)
        if stack.status != "UPDATE_ROLLBACK_FAILED":
            raise AwsFault("ValidationError", f"Stack:{stack.id} is in {stack.status} state")
        person = self.fake.people.by_key[call.key_id]
        self.operations.resume_rollback(stack, person)
        return {}

    def delete(self, call: Call) -> dict[str, Any]:
        try:
            stack = self._stack(call)
        except AwsFault:
            # Deleting what is not there succeeds.
            return {}
        retained = set(call.params.get("RetainResources", []))
        if stack.protected:
            raise AwsFault(
                "ValidationError", f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled"
            )
        if retained and (stack.status != "DELETE_FAILED" or not retained <= _stuck(stack)):
            raise AwsFault(
                "ValidationError", "Invalid operation: RetainResources is for resources that failed to delete"
            )
        if stack.status == "DELETE_IN_PROGRESS":
            return {}
        if stack.status.endswith("_IN_PROGRESS") and stack.status not in (
            "REVIEW_IN_PROGRESS",
            "CREATE_IN_PROGRESS",
        ):
            raise AwsFault("ValidationError", f"Stack [{stack.id}] cannot be deleted while in status {stack.status}")
        self.operations.delete(stack, self.fake.people.by_key[call.key_id], retained)
        return {}

    def protect(self, call: Call) -> dict[str, Any]:
        stack = self._stack(call)
        stack.protected = call.params["EnableTerminationProtection"]
        return {"StackId": stack.id}

    def _stack(self, call: Call, *, gone: bool = False) -> Stack:
        """By name, or by id, which also finds (`gone`) one that was deleted."""
        wanted = call.params["StackName"]
        self._bury()
        every = [stack for (region, _), stack in self.stacks.items() if region == call.region]
        for stack in [*every, *(self.gone if gone else [])]:
            if wanted == stack.id or (wanted == stack.name and stack.status != "DELETE_COMPLETE"):
                return stack
        raise AwsFault("ValidationError", f"Stack with id {wanted} does not exist")

    def _bury(self) -> None:
        for key, stack in [*self.stacks.items()]:
            if stack.status == "DELETE_COMPLETE":
                self.gone.append(self.stacks.pop(key))

    def _set(self, call: Call) -> ChangeSet:
        stack = self._stack(call)
        key = (stack.id, call.params["ChangeSetName"].rpartition("/")[2])
        if key not in self.sets:
            raise AwsFault("ChangeSetNotFound", f"ChangeSet [{key[1]}] does not exist")
        return self.sets[key]


def _ready(made: ChangeSet, objected: bool) -> None:
    if objected:
        made.status, made.reason = "FAILED", EARLY
    elif made.changes:
        made.status, made.execution = "CREATE_COMPLETE", "AVAILABLE"
    else:
        made.status, made.reason = "FAILED", NOTHING


def _stuck(stack: Stack) -> set[str]:
    return {made.title for made in stack.made.values() if made.status == "DELETE_FAILED"}


def _only(handler: Callable[[Call], Any], known: tuple[str, ...]) -> Callable[[Call], Any]:
    def run(call: Call) -> Any:
        unknown = set(call.params) - {*known, "ClientRequestToken", "ClientToken"}
        assert not unknown, f"{call}: parameters that are not modelled: {unknown}"
        return handler(call)

    return run
