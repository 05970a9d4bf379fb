"""CloudFormation: a stack is made resource by resource, in the order its references and DependsOn demand, by the API calls
CloudFormation would make with the caller's permissions. `resources` knows each type; an unknown type, property or function
fails the stack and the test.

Only creation by a change set, and only with OnStackFailure=DO_NOTHING: what happened stays to be looked at.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import yaml
from botocore.exceptions import ClientError

from tests.fake_aws import resources
from tests.fake_aws.calls import AwsFault, Call
from tests.fake_aws.people import ACCOUNT, Person

if TYPE_CHECKING:
    from tests.fake_aws.server import FakeAws

BODY_LIMIT = 51_200


@dataclass
class Made:
    """A resource of a stack: what Ref gives, what GetAtt gives, and what became of it."""

    title: str
    kind: str
    status: str = "CREATE_IN_PROGRESS"
    reason: str = ""
    physical: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    timestamp: datetime = field(default_factory=lambda: datetime.now(UTC).replace(tzinfo=None))


@dataclass
class Stack:
    name: str
    region: str
    body: str
    parameters: dict[str, str]
    status: str = "REVIEW_IN_PROGRESS"
    made: dict[str, Made] = field(default_factory=dict)
    created: datetime = field(default_factory=lambda: datetime.now(UTC).replace(tzinfo=None))

    @property
    def id(self) -> str:
        return f"arn:aws:cloudformation:{self.region}:{ACCOUNT}:stack/{self.name}/fake"


class Stacks:
    def __init__(self, fake: FakeAws) -> None:
        self.fake = fake
        self.stacks: dict[tuple[str, str], Stack] = {}
        self._numbers = itertools.count(1)

    def handlers(self) -> dict[tuple[str, str], Callable[[Call], Any]]:
        return {
            ("cloudformation", "CreateChangeSet"): self.create_change_set,
            ("cloudformation", "DescribeChangeSet"): self.describe_change_set,
            ("cloudformation", "DescribeStackResources"): self.describe_resources,
            ("cloudformation", "DescribeStacks"): self.describe,
            ("cloudformation", "ExecuteChangeSet"): self.execute_change_set,
            ("cloudformation", "GetTemplateSummary"): self.summary,
            ("cloudformation", "ValidateTemplate"): self.validate,
        }

    def describe(self, call: Call) -> dict[str, Any]:
        _only(call, "StackName")
        stack = self._stack(call)
        entry: dict[str, Any] = {
            "StackName": stack.name,
            "StackId": stack.id,
            "StackStatus": stack.status,
            "CreationTime": stack.created,
        }
        if stack.status == "CREATE_COMPLETE":
            outputs = yaml.safe_load(stack.body).get("Outputs", {})
            entry["Outputs"] = [
                {"OutputKey": name, "OutputValue": _Resolver(stack).value(output["Value"])}
                for name, output in outputs.items()
            ]
        return {"Stacks": [entry]}

    def describe_resources(self, call: Call) -> dict[str, Any]:
        _only(call, "StackName")
        stack = self._stack(call)
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

    def summary(self, call: Call) -> dict[str, Any]:
        _only(call, "StackName")
        template = yaml.safe_load(self._stack(call).body)
        return {
            "Metadata": json.dumps(template.get("Metadata", {})),
            "ResourceTypes": sorted({resource["Type"] for resource in template["Resources"].values()}),
        }

    def validate(self, call: Call) -> dict[str, Any]:
        _only(call, "TemplateBody")
        template = _template(call.params["TemplateBody"])
        return {
            "Description": template.get("Description", ""),
            "Parameters": [{"ParameterKey": k} for k in template.get("Parameters", {})],
        }

    def create_change_set(self, call: Call) -> dict[str, Any]:
        known = (
            "StackName",
            "ChangeSetName",
            "ChangeSetType",
            "TemplateBody",
            "Parameters",
            "Capabilities",
            "OnStackFailure",
        )
        _only(call, *known)
        assert call.params["ChangeSetType"] == "CREATE", "only change sets that create are modelled"
        assert call.params.get("OnStackFailure") == "DO_NOTHING", "only OnStackFailure=DO_NOTHING is modelled"
        name = call.params["StackName"]
        if not re.fullmatch(r"[A-Za-z][-A-Za-z0-9]{0,127}", name):
            raise AwsFault("ValidationError", f"Value '{name}' at 'stackName' failed to satisfy constraint")
        if (call.region, name) in self.stacks:
            raise AwsFault("ValidationError", f"Stack [{name}] already exists and cannot be created again")
        template = _template(call.params["TemplateBody"])
        parameters = {entry["ParameterKey"]: entry["ParameterValue"] for entry in call.params.get("Parameters", [])}
        for key, declared in template.get("Parameters", {}).items():
            parameters.setdefault(key, declared.get("Default"))
            if parameters[key] is None:
                raise AwsFault("ValidationError", f"Parameters: [{key}] must have values")
            if not re.fullmatch(declared["AllowedPattern"], parameters[key]):
                raise AwsFault("ValidationError", f"Parameter {key} failed to satisfy constraint: AllowedPattern")
        named = any("RoleName" in r.get("Properties", {}) for r in template["Resources"].values())
        if named and "CAPABILITY_NAMED_IAM" not in call.params.get("Capabilities", []):
            raise AwsFault("InsufficientCapabilitiesException", "Requires capabilities : [CAPABILITY_NAMED_IAM]")
        stack = Stack(name, call.region, call.params["TemplateBody"], parameters)
        self.stacks[call.region, name] = stack
        return {"Id": f"{stack.id}/{call.params['ChangeSetName']}", "StackId": stack.id}

    def describe_change_set(self, call: Call) -> dict[str, Any]:
        _only(call, "StackName", "ChangeSetName")
        stack = self._stack(call)
        changes = [
            {
                "Type": "Resource",
                "ResourceChange": {"Action": "Add", "LogicalResourceId": title, "ResourceType": body["Type"]},
            }
            for title, body in yaml.safe_load(stack.body)["Resources"].items()
        ]
        available = "AVAILABLE" if stack.status == "REVIEW_IN_PROGRESS" else "EXECUTE_COMPLETE"
        return {"StackName": stack.name, "Status": "CREATE_COMPLETE", "ExecutionStatus": available, "Changes": changes}

    def execute_change_set(self, call: Call) -> dict[str, Any]:
        _only(call, "StackName", "ChangeSetName")
        stack = self._stack(call)
        stack.status = "CREATE_IN_PROGRESS"
        self._make(stack, yaml.safe_load(stack.body), self.fake.people.by_key[call.key_id])
        return {}

    def _make(self, stack: Stack, template: dict[str, Any], person: Person) -> None:
        resolver = _Resolver(stack)
        for title in order(template["Resources"]):
            body = template["Resources"][title]
            made = stack.made[title] = Made(title, body["Type"])
            properties = resources.Properties(resolver.value(body.get("Properties", {})))
            maker = resources.Maker(
                lambda service: self.fake.client(service, person, stack.region, via="cloudformation"),
                f"{stack.name}-{title}".lower() + f"-{next(self._numbers):012d}",
            )
            try:
                made.physical, made.attributes = resources.make(body["Type"], maker, properties)
                properties.all_taken(body["Type"])
            except ClientError as error:
                made.status, made.reason = "CREATE_FAILED", str(error)
                stack.status = "CREATE_FAILED"
                return
            except Exception as error:
                made.status, made.reason = "CREATE_FAILED", f"{type(error).__name__}: {error}"
                stack.status = "CREATE_FAILED"
                self.fake.unmodelled.append(f"{title}: {made.reason}")
                return
            made.status = "CREATE_COMPLETE"
        stack.status = "CREATE_COMPLETE"

    def _stack(self, call: Call) -> Stack:
        name = call.params["StackName"]
        if (call.region, name) not in self.stacks:
            raise AwsFault("ValidationError", f"Stack with id {name} does not exist")
        return self.stacks[call.region, name]


def _template(body: str) -> dict[str, Any]:
    if len(body.encode()) > BODY_LIMIT:
        raise AwsFault("ValidationError", f"'templateBody' must have length less than or equal to {BODY_LIMIT}")
    template: dict[str, Any] = yaml.safe_load(body)
    unknown = set(template) - {
        "AWSTemplateFormatVersion",
        "Description",
        "Metadata",
        "Parameters",
        "Resources",
        "Outputs",
    }
    assert not unknown, f"template sections that are not modelled: {unknown}"
    for title, resource in template["Resources"].items():
        for name in _mentioned(resource) - set(template["Resources"]) - set(template.get("Parameters", {})):
            raise AwsFault(
                "ValidationError", f"Template format error: Unresolved resource dependency [{name}] in {title}"
            )
    return template


def order(declared: dict[str, Any]) -> list[str]:
    """Everything as early as what it mentions allows, as CloudFormation does; the last in the file first among equals.

    So a dependency that is missing from the template is not satisfied by the luck of the order in the file.
    """
    levels: dict[str, int] = {}

    def level(title: str, above: tuple[str, ...]) -> int:
        if title in above:
            raise AwsFault("ValidationError", f"Circular dependency between resources: {', '.join(above)}")
        if title not in levels:
            mentioned = _mentioned(declared[title]) & set(declared)
            levels[title] = 1 + max((level(name, (*above, title)) for name in mentioned), default=0)
        return levels[title]

    position = {title: i for i, title in enumerate(declared)}
    return sorted(declared, key=lambda title: (level(title, ()), -position[title]))


def _mentioned(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(_mentioned, value))
    if not isinstance(value, dict):
        return set()
    found: set[str] = set()
    for key, inner in value.items():
        if key == "Ref":
            found.add(inner)
        elif key == "Fn::GetAtt":
            found.add(inner[0])
        elif key == "Fn::Sub":
            found |= {name.partition(".")[0] for name in re.findall(r"\$\{([^}]+)\}", inner)}
        elif key == "DependsOn":
            found |= {inner} if isinstance(inner, str) else set(inner)
        else:
            found |= _mentioned(inner)
    return {name for name in found if not name.startswith("AWS::")}


class _Resolver:
    """Ref, Fn::GetAtt and Fn::Sub; other functions are not modelled."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack

    def value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if not isinstance(value, dict):
            return value
        if set(value) == {"Ref"}:
            return self.ref(value["Ref"])
        if set(value) == {"Fn::GetAtt"}:
            return self.attribute(*value["Fn::GetAtt"])
        if set(value) == {"Fn::Sub"}:
            return re.sub(r"\$\{([^}]+)\}", lambda match: str(self._named(match[1])), value["Fn::Sub"])
        assert not any(key.startswith("Fn::") for key in value), f"not modelled: {set(value)}"
        return {key: self.value(inner) for key, inner in value.items()}

    def ref(self, name: str) -> Any:
        pseudo = {
            "AWS::Partition": "aws",
            "AWS::Region": self.stack.region,
            "AWS::AccountId": ACCOUNT,
            "AWS::URLSuffix": "amazonaws.com",
        }
        if name in pseudo:
            return pseudo[name]
        if name in self.stack.parameters:
            return self.stack.parameters[name]
        return self.stack.made[name].physical

    def attribute(self, title: str, name: str) -> Any:
        return self.stack.made[title].attributes[name]

    def _named(self, name: str) -> Any:
        title, dot, attribute = name.partition(".")
        return self.attribute(title, attribute) if dot else self.ref(name)


def _only(call: Call, *known: str) -> None:
    unknown = set(call.params) - set(known)
    assert not unknown, f"{call}: parameters that are not modelled: {unknown}"
