"""A stack at work: resources made, changed and removed one after the other, rolled back when one fails, with an event for each.

Everything takes AWS-like time on the fake's clock. CloudFormation acts with the permissions of whoever asked, even when
their session has ended since.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from tests.fake_aws import changing, removal, resources, templates
from tests.fake_aws.calls import AwsFault
from tests.fake_aws.graph import Failed, Graph, failure
from tests.fake_aws.people import ACCOUNT, Person

if TYPE_CHECKING:
    from tests.fake_aws.server import FakeAws

STACK = "AWS::CloudFormation::Stack"
# Seconds to make and to remove; what is not here takes five.
TIMES = {
    "AWS::EC2::InternetGateway": (16, 16),
    "AWS::EC2::NatGateway": (95, 60),
    "AWS::EC2::VPC": (12, 3),
    "AWS::EC2::VPCGatewayAttachment": (16, 10),
    "AWS::EFS::FileSystem": (20, 20),
    "AWS::EFS::MountTarget": (90, 60),
    "AWS::EKS::Addon": (40, 30),
    "AWS::EKS::Cluster": (510, 150),
    "AWS::EKS::Nodegroup": (130, 240),
    "AWS::IAM::Role": (18, 3),
    "AWS::S3::Bucket": (25, 5),
}
USUAL = (5, 5)
# What every public parameter of an image stands for.
IMAGE = "ami-12c6146b"


@dataclass
class Made:
    """A resource of a stack: what Ref gives, what GetAtt gives, how it was declared, and what became of it."""

    title: str
    kind: str
    timestamp: datetime
    status: str = "CREATE_IN_PROGRESS"
    reason: str = ""
    physical: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    properties: dict[str, Any] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    id: str
    title: str
    physical: str
    kind: str
    status: str
    reason: str
    timestamp: datetime


@dataclass
class Stack:
    name: str
    region: str
    body: str
    parameters: dict[str, str]
    created: datetime = datetime(2026, 1, 1)
    status: str = "REVIEW_IN_PROGRESS"
    reason: str = ""
    number: int = 1
    protected: bool = False
    updated: datetime | None = None
    deleted: datetime | None = None
    made: dict[str, Made] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    # What waits to be removed when an update is over: (old resource, why it is still there).
    replaced: list[Made] = field(default_factory=list)
    # Template and parameters to go back to, after a rollback that failed.
    before: tuple[str, dict[str, str]] | None = None

    @property
    def id(self) -> str:
        return f"arn:aws:cloudformation:{self.region}:{ACCOUNT}:stack/{self.name}/fake-{self.number}"


@dataclass
class Break:
    """A resource that fails, `times` times: before its API call, or after it, halfway through its time."""

    reason: str
    times: int = 1
    midway: bool = True


class Operations:
    def __init__(self, fake: FakeAws) -> None:
        self.fake = fake
        # Arranged by tests: resources that fail to be made or changed, and to be removed, by their title.
        self.breaks: dict[str, Break] = {}
        self.sticks: dict[str, Break] = {}
        self.graphs: dict[str, Graph] = {}
        self._numbers = itertools.count(1)

    def create(self, stack: Stack, person: Person, on_failure: str) -> None:
        self.mark(stack, "CREATE_IN_PROGRESS", "User Initiated")
        declared = templates.parsed(stack.body)["Resources"]
        tasks = {title: _Make(self, stack, title, body, person) for title, body in declared.items()}

        def then(failed: list[str]) -> None:
            if not failed:
                self.mark(stack, "CREATE_COMPLETE")
                return
            text = f"The following resource(s) failed to create: {_listed(sorted(failed))}. "
            if on_failure == "DO_NOTHING":
                self.mark(stack, "CREATE_FAILED", text)
                return
            self.mark(stack, "ROLLBACK_IN_PROGRESS", text + "Rollback requested by user.")
            self._remove(stack, list(stack.made), person, "ROLLBACK", creation=True)

        self._run(stack, tasks, templates.dependencies(declared), "Resource creation cancelled", then)

    def update(self, stack: Stack, body: str, parameters: dict[str, str], person: Person) -> None:
        before = (stack.body, stack.parameters)
        self.mark(stack, "UPDATE_IN_PROGRESS", "User Initiated")

        def then(failed: list[str]) -> None:
            if not failed:
                self.mark(stack, "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
                self._clean_up(stack, person, "UPDATE_COMPLETE")
                return
            text = f"The following resource(s) failed to update: {_listed(sorted(failed))}."
            self.mark(stack, "UPDATE_ROLLBACK_IN_PROGRESS", text)
            self._change(stack, *before, person, back)

        def back(failed: list[str]) -> None:
            if failed:
                stack.before = before
                self.mark(stack, "UPDATE_ROLLBACK_FAILED", f"failed to update: {_listed(sorted(failed))}")
                return
            self.mark(stack, "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS")
            self._clean_up(stack, person, "UPDATE_ROLLBACK_COMPLETE")

        self._change(stack, body, parameters, person, then)

    def resume_rollback(self, stack: Stack, person: Person) -> None:
        """Once more, after a rollback that failed."""
        assert stack.before is not None, "there is no rollback to go on with"
        self.mark(stack, "UPDATE_ROLLBACK_IN_PROGRESS", "User Initiated")

        def then(failed: list[str]) -> None:
            end = "UPDATE_ROLLBACK_FAILED" if failed else "UPDATE_ROLLBACK_COMPLETE"
            self.mark(stack, end, f"failed to update: {_listed(sorted(failed))}" if failed else "")

        self._change(stack, *stack.before, person, then)

    def _change(
        self, stack: Stack, body: str, parameters: dict[str, str], person: Person, then: Callable[[list[str]], None]
    ) -> None:
        stack.body, stack.parameters, stack.updated = body, parameters, self.fake.clock.now()
        declared = templates.parsed(body)["Resources"]
        for title in [title for title in stack.made if title not in declared]:
            stack.replaced.append(stack.made.pop(title))
        # On the way back what was to be removed is still there, and taken back.
        for old in [old for old in stack.replaced if old.body == declared.get(old.title)]:
            stack.replaced.remove(old)
            if old.title in stack.made:
                stack.replaced.append(stack.made[old.title])
            stack.made[old.title] = old
        tasks: dict[str, Any] = {
            title: _Change(self, stack, title, wanted, person)
            if title in stack.made
            else _Make(self, stack, title, wanted, person)
            for title, wanted in declared.items()
        }
        self._run(stack, tasks, templates.dependencies(declared), "Resource update cancelled", then)

    def _clean_up(self, stack: Stack, person: Person, end: str) -> None:
        old, stack.replaced = stack.replaced, []
        tasks = {f"{made.title}-{i}": _Remove(self, stack, made, person) for i, made in enumerate(old)}
        for made in [made for made in old if made.body.get("UpdateReplacePolicy") == "Retain"]:
            tasks = {name: task for name, task in tasks.items() if task.made is not made}
        # In the order of their dependence, as at the end of a stack: what mentions something goes before it.
        mentions = {name: templates.mentioned(task.made.body) for name, task in tasks.items()}
        after = {
            name: {other for other, seen in mentions.items() if other != name and task.made.title in seen}
            for name, task in tasks.items()
        }
        # What cannot be removed now is left behind: an update does not fail for it.
        self._run(stack, tasks, after, "", lambda failed: self.mark(stack, end))

    def delete(self, stack: Stack, person: Person, retain: set[str]) -> None:
        if stack.id in self.graphs:
            self.graphs[stack.id].abandon()
        self.mark(stack, "DELETE_IN_PROGRESS", "User Initiated")
        self._remove(stack, [title for title in stack.made if title not in retain], person, "DELETE", creation=False)

    def _remove(self, stack: Stack, titles: list[str], person: Person, word: str, *, creation: bool) -> None:
        tasks = {}
        for title in titles:
            made = stack.made[title]
            policy = made.body.get("DeletionPolicy")
            if policy == "Retain" or (policy == "RetainExceptOnCreate" and not creation):
                if made.status != "DELETE_SKIPPED":
                    self.note(stack, made, "DELETE_SKIPPED")
            elif made.status not in ("DELETE_COMPLETE", "DELETE_SKIPPED"):
                tasks[title] = _Remove(self, stack, made, person)
        needed_by: dict[str, set[str]] = {title: set() for title in tasks}
        declared = {title: stack.made[title].body for title in stack.made}
        for title, waits in templates.dependencies(declared).items():
            for name in waits & set(needed_by):
                needed_by[name].add(title)

        def then(failed: list[str]) -> None:
            text = f"The following resource(s) failed to delete: {_listed(sorted(failed))}. " if failed else ""
            self.mark(stack, f"{word}_{'FAILED' if failed else 'COMPLETE'}", text)

        self._run(stack, tasks, needed_by, "", then)

    def _run(
        self,
        stack: Stack,
        tasks: dict[str, Any],
        after: dict[str, set[str]],
        cancel: str,
        then: Callable[[list[str]], None],
    ) -> None:
        self.graphs[stack.id] = Graph(self.fake.clock, tasks, after, cancel=cancel, then=then)
        self.graphs[stack.id].begin()

    def mark(self, stack: Stack, status: str, reason: str = "") -> None:
        stack.status, stack.reason = status, reason
        if status == "DELETE_COMPLETE":
            stack.deleted = self.fake.clock.now()
        self._event(stack, stack.name, stack.id, STACK, status, reason)

    def note(self, stack: Stack, made: Made, status: str, reason: str = "") -> None:
        made.status, made.reason, made.timestamp = status, reason, self.fake.clock.now()
        self._event(stack, made.title, made.physical, made.kind, status, reason)

    def _event(self, stack: Stack, title: str, physical: str, kind: str, status: str, reason: str) -> None:
        number = next(self._numbers)
        stack.events.append(Event(f"event-{number:06d}", title, physical, kind, status, reason, self.fake.clock.now()))

    def maker(self, stack: Stack, title: str, person: Person) -> resources.Maker:
        return resources.Maker(
            lambda service: self.fake.client(service, person, stack.region, via="cloudformation"),
            f"{stack.name}-{title}".lower() + f"-{next(self._numbers):012d}",
        )

    def resolved(self, stack: Stack) -> dict[str, str]:
        """What a parameter of type AWS::SSM::Parameter::Value names stands in its place."""
        return {
            key: IMAGE if value.startswith("/aws/service/ami-") else value for key, value in stack.parameters.items()
        }

    def resolver(self, stack: Stack) -> templates.Resolver:
        return templates.Resolver(
            stack.region,
            self.resolved(stack) | {"AWS::StackId": stack.id},
            lambda title: stack.made[title].physical,
            lambda title, name: stack.made[title].attributes[name],
        )

    def asked(self, title: str, request: Callable[[], Any]) -> Any:
        """A request of CloudFormation's. What is not modelled fails the test, not only the resource."""
        try:
            return request()
        except ClientError as error:
            raise failure(error) from error
        except AwsFault as error:
            raise Failed(str(error)) from error
        except Exception as error:
            self.fake.unmodelled.append(f"{title}: {type(error).__name__}: {error}")
            raise Failed(f"{type(error).__name__}: {error}") from error

    def broken(self, table: dict[str, Break], title: str, *, midway: bool) -> None:
        arranged = table.get(title)
        if arranged and arranged.times > 0 and arranged.midway == midway:
            arranged.times -= 1
            raise Failed(arranged.reason)


class _Make:
    def __init__(self, operations: Operations, stack: Stack, title: str, body: dict[str, Any], person: Person) -> None:
        self.operations, self.stack, self.title, self.body, self.person = operations, stack, title, body, person

    def start(self) -> float:
        operations, stack = self.operations, self.stack
        made = Made(self.title, self.body["Type"], operations.fake.clock.now(), body=self.body)
        stack.made[self.title] = made
        operations.note(stack, made, "CREATE_IN_PROGRESS")
        operations.broken(operations.breaks, self.title, midway=False)
        operations.asked(self.title, lambda: self._make(made))
        return TIMES.get(made.kind, USUAL)[0]

    def _make(self, made: Made) -> None:
        made.properties = self.operations.resolver(self.stack).value(self.body.get("Properties", {}))
        properties = resources.Properties(made.properties)
        maker = self.operations.maker(self.stack, self.title, self.person)
        made.physical, made.attributes = resources.make(made.kind, maker, properties)
        properties.all_taken(made.kind)

    def finish(self) -> None:
        self.operations.broken(self.operations.breaks, self.title, midway=True)
        self.operations.note(self.stack, self.stack.made[self.title], "CREATE_COMPLETE")

    def fail(self, reason: str) -> None:
        self.operations.note(self.stack, self.stack.made[self.title], "CREATE_FAILED", reason)


class _Change:
    """A resource that may have to change: in place, by a replacement, or not at all."""

    def __init__(self, operations: Operations, stack: Stack, title: str, body: dict[str, Any], person: Person) -> None:
        self.operations, self.stack, self.title, self.body, self.person = operations, stack, title, body, person
        self.quiet = False

    def start(self) -> float:
        operations, stack, made = self.operations, self.stack, self.stack.made[self.title]
        new = operations.resolver(stack).value(self.body.get("Properties", {}))
        if new == made.properties and made.body == self.body:
            self.quiet = True
            return 0.0
        operations.note(stack, made, "UPDATE_IN_PROGRESS")
        operations.broken(operations.breaks, self.title, midway=False)
        if new == made.properties:
            made.body = self.body
            return 1.0
        operations.asked(self.title, lambda: self._change(made, new))
        return TIMES.get(made.kind, USUAL)[0] / 3

    def _change(self, made: Made, new: dict[str, Any]) -> None:
        maker = self.operations.maker(self.stack, self.title, self.person)
        if not changing.replaces(made.kind, made.properties, new):
            made.attributes = changing.change(made.kind, maker, made.physical, made.attributes, made.properties, new)
            made.properties, made.body = new, self.body
            return
        changing.check_name(made.kind, made.properties)
        properties = resources.Properties(new)
        physical, attributes = resources.make(made.kind, maker, properties)
        properties.all_taken(made.kind)
        self.stack.replaced.append(made)
        self.stack.made[self.title] = Made(
            self.title,
            made.kind,
            self.operations.fake.clock.now(),
            "UPDATE_IN_PROGRESS",
            "Requested update requires the creation of a new physical resource; hence creating one.",
            physical,
            attributes,
            new,
            self.body,
        )

    def finish(self) -> None:
        if not self.quiet:
            self.operations.broken(self.operations.breaks, self.title, midway=True)
            self.operations.note(self.stack, self.stack.made[self.title], "UPDATE_COMPLETE")

    def fail(self, reason: str) -> None:
        if not self.quiet:
            self.operations.note(self.stack, self.stack.made[self.title], "UPDATE_FAILED", reason)


class _Remove:
    def __init__(self, operations: Operations, stack: Stack, made: Made, person: Person) -> None:
        self.operations, self.stack, self.made, self.person = operations, stack, made, person

    def start(self) -> float:
        self.operations.note(self.stack, self.made, "DELETE_IN_PROGRESS")
        return TIMES.get(self.made.kind, USUAL)[1]

    def finish(self) -> None:
        made, operations = self.made, self.operations
        operations.broken(operations.sticks, made.title, midway=True)
        if made.physical:
            maker = operations.maker(self.stack, made.title, self.person)
            operations.asked(
                made.title,
                lambda: removal.remove(made.kind, maker, made.physical, made.attributes, made.properties),
            )
        operations.note(self.stack, made, "DELETE_COMPLETE")

    def fail(self, reason: str) -> None:
        self.operations.note(self.stack, self.made, "DELETE_FAILED", reason)


def _listed(titles: list[str]) -> str:
    return f"[{', '.join(titles)}]"
