"""A CloudFormation template as text and references: what it may contain, in which order, and what its functions give."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import yaml

from tests.fake_aws.calls import AwsFault
from tests.fake_aws.people import ACCOUNT

BODY_LIMIT = 51_200
_SECTIONS = {"AWSTemplateFormatVersion", "Description", "Metadata", "Parameters", "Resources", "Outputs"}
_ATTRIBUTES = {"Type", "DeletionPolicy", "UpdateReplacePolicy", "DependsOn", "Metadata", "Properties"}
_POLICIES = {None, "Delete", "Retain", "RetainExceptOnCreate"}


@cache
def parsed(body: str) -> dict[str, Any]:
    """Shared by all who ask, to be looked at only."""
    if len(body.encode()) > BODY_LIMIT:
        raise AwsFault("ValidationError", f"'templateBody' must have length less than or equal to {BODY_LIMIT}")
    template: dict[str, Any] = yaml.load(body, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    unknown = set(template) - _SECTIONS
    assert not unknown, f"template sections that are not modelled: {unknown}"
    for title, resource in template["Resources"].items():
        strange = set(resource) - _ATTRIBUTES
        assert not strange, f"{title}: resource attributes that are not modelled: {strange}"
        assert resource.get("DeletionPolicy") in _POLICIES, f"{title}: DeletionPolicy is not modelled"
        for name in mentioned(resource) - set(template["Resources"]) - set(template.get("Parameters", {})):
            raise AwsFault(
                "ValidationError", f"Template format error: Unresolved resource dependency [{name}] in {title}"
            )
    dependencies(template["Resources"])
    return template


def parameters(template: dict[str, Any], given: list[dict[str, Any]], before: dict[str, str]) -> dict[str, str]:
    """The values of a template's parameters; `before` are those of the stack, for UsePreviousValue."""
    values = {
        entry["ParameterKey"]: before[entry["ParameterKey"]]
        if entry.get("UsePreviousValue")
        else entry["ParameterValue"]
        for entry in given
    }
    unknown = set(values) - set(template.get("Parameters", {}))
    if unknown:
        raise AwsFault("ValidationError", f"Parameters: {sorted(unknown)} do not exist in the template")
    for key, declared in template.get("Parameters", {}).items():
        values.setdefault(key, declared.get("Default"))
        if values[key] is None:
            raise AwsFault("ValidationError", f"Parameters: [{key}] must have values")
        if not re.fullmatch(declared.get("AllowedPattern", ".*"), values[key]):
            raise AwsFault("ValidationError", f"Parameter {key} failed to satisfy constraint: AllowedPattern")
    return values


def dependencies(declared: dict[str, Any]) -> dict[str, set[str]]:
    """What each resource waits for; a circle is an error."""
    waits = {title: mentioned(body) & set(declared) for title, body in declared.items()}
    settled: set[str] = set()

    def visit(title: str, above: tuple[str, ...]) -> None:
        if title in above:
            raise AwsFault("ValidationError", f"Circular dependency between resources: {', '.join(above)}")
        if title not in settled:
            for name in waits[title]:
                visit(name, (*above, title))
            settled.add(title)

    for title in declared:
        visit(title, ())
    return waits


def mentioned(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(mentioned, value))
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
            found |= mentioned(inner)
    return {name for name in found if not name.startswith("AWS::")}


class Resolver:
    """Ref, Fn::GetAtt and Fn::Sub; other functions are not modelled. `physical` and `attribute` look resources up."""

    def __init__(
        self,
        region: str,
        given: dict[str, str],
        physical: Callable[[str], str],
        attribute: Callable[[str, str], Any],
    ) -> None:
        self.known = given | {
            "AWS::Partition": "aws",
            "AWS::Region": region,
            "AWS::AccountId": ACCOUNT,
            "AWS::URLSuffix": "amazonaws.com",
        }
        self.physical, self.attribute = physical, attribute

    def value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if not isinstance(value, dict):
            return value
        if set(value) == {"Ref"}:
            return self._named(value["Ref"])
        if set(value) == {"Fn::GetAtt"}:
            return self.attribute(*value["Fn::GetAtt"])
        if set(value) == {"Fn::Sub"}:
            return re.sub(r"\$\{([^}]+)\}", lambda match: str(self._named(match[1])), value["Fn::Sub"])
        assert not any(key.startswith("Fn::") for key in value), f"not modelled: {set(value)}"
        return {key: self.value(inner) for key, inner in value.items()}

    def _named(self, name: str) -> Any:
        title, dot, attribute = name.partition(".")
        if dot:
            return self.attribute(title, attribute)
        return self.known[name] if name in self.known else self.physical(name)
