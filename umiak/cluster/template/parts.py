"""What every part of the template shares: adding a resource, naming it, tagging it. Knows no AWS service."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from troposphere import AWSObject, Ref, Sub, Tags, Template

from umiak.spec.cluster import STACK_TAG, TAG, ClusterSpec


@dataclass
class Parts:
    spec: ClusterSpec
    template: Template
    # The stack was made by umiak 0.1.0: its volume stays as it is, or pods that use it now would lose it.
    old_volume: bool = False
    outputs: dict[str, tuple[Any, str]] = field(default_factory=dict)

    def add(self, resource: Any) -> Any:
        return self.template.add_resource(resource)

    def tags(self, part: str, **extra: str) -> Tags:
        """Tags by which a resource is known as ours, whoever deployed the template."""
        return Tags({TAG: self.spec.name, "Name": f"{self.spec.name}-{part}"} | extra)

    def data_tags(self, part: str, **extra: str) -> Tags:
        """And by which what holds data is known as this stack's, not of an earlier one with the same name.

        Not on everything: a launch template with other tags is a new one, and new nodes.
        """
        return Tags({STACK_TAG: Ref("AWS::StackId")}) + self.tags(part, **extra)

    def keep_or_delete(self, resource: AWSObject, fate: str) -> Any:
        """On removal and on replacement alike: a kept resource is never deleted by surprise. Only when the creation of the
        stack itself fails, and nobody can have used it, does it go.

        The metadata says it too, because CloudFormation takes a change of policies alone for no change.
        """
        keep = fate == "keep"
        resource.resource["DeletionPolicy"] = "RetainExceptOnCreate" if keep else "Delete"
        resource.resource["UpdateReplacePolicy"] = "Retain" if keep else "Delete"
        resource.resource["Metadata"] = {**resource.resource.get("Metadata", {}), "OnDestroy": fate}
        return self.add(resource)


def explain(resource: AWSObject, **reasons: str) -> Any:
    """Write down, inside the template, why a statement (by its Sid) has a wildcard in it."""
    resource.resource["Metadata"] = {"Wildcards": reasons}
    return resource


def statement(sid: str, effect: str, action: Any, resource: Any, **more: Any) -> dict[str, Any]:
    return {"Sid": sid, "Effect": effect, "Action": action, "Resource": resource} | more


def document(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def account_arn(service: str, rest: str) -> Sub:
    return Sub(f"arn:${{AWS::Partition}}:{service}:${{AWS::Region}}:${{AWS::AccountId}}:{rest}")
