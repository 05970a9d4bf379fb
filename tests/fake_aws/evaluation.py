"""What IAM says to a question: statements, conditions and permissions boundaries, evaluated as the IAM user guide has it
("Policy evaluation logic", "IAM JSON policy elements: Condition operators").

Fails closed: an operator, a condition key or an element of a policy that is not modelled is an assertion, never a yes.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from typing import Any

Policy = Mapping[str, Any]
# Key → its values; what a request does not have is not in it.
Context = Mapping[str, list[str]]

_ELEMENTS = {"Sid", "Effect", "Action", "NotAction", "Resource", "Condition"}
# Condition keys that requests here carry, or that are known to be absent from them.
_KEYS = (
    "aws:CalledVia",
    "aws:MultiFactorAuthPresent",
    "aws:RequestedRegion",
    "aws:RequestTag/",
    "aws:ResourceTag/",
    "aws:SecureTransport",
    "aws:SourceIp",
    "aws:TagKeys",
    "cloudformation:ImportResourceTypes",
    "ec2:CreateAction",
    "ec2:ResourceTag/",
    "elasticfilesystem:CreateAction",
    "iam:AWSServiceName",
    "iam:PassedToService",
    "iam:PermissionsBoundary",
    "iam:PolicyARN",
    "kms:ViaService",
    "ssm:resourceTag/",
)


def check(policy: Policy) -> None:
    """Refuse what could not be evaluated, when it is attached."""
    for statement in policy["Statement"]:
        unknown = set(statement) - _ELEMENTS
        assert not unknown, f"policy elements that are not modelled: {unknown}"
        assert statement["Effect"] in ("Allow", "Deny"), f"effect {statement['Effect']}"
        for test, wanted in statement.get("Condition", {}).items():
            _operator(test)
            for key in wanted:
                assert key.startswith(_KEYS), f"condition key {key} is not modelled"


def decide(policies: Iterable[Policy], boundary: Policy | None, action: str, resource: str | None, has: Context) -> str:
    """IAM's own words: allowed, explicitDeny or implicitDeny. `resource` is None where the fake does not know it."""
    effects = _effects(policies, action, resource, has)
    limits = {"Allow"} if boundary is None else _effects([boundary], action, resource, has)
    if "Deny" in effects | limits:
        return "explicitDeny"
    return "allowed" if "Allow" in effects and "Allow" in limits else "implicitDeny"


def _effects(policies: Iterable[Policy], action: str, resource: str | None, has: Context) -> set[str]:
    return {
        statement["Effect"]
        for policy in policies
        for statement in policy["Statement"]
        if _matches(statement, action, resource, has)
    }


def _matches(statement: Mapping[str, Any], action: str, resource: str | None, has: Context) -> bool:
    if not _about(statement, action):
        return False
    resources = _list(statement["Resource"])
    if resource is not None and not _any(resources, resource):
        return False
    conditions = statement.get("Condition", {})
    if resource is None and "*" not in resources:
        assert statement["Effect"] == "Allow", f"what {action} is about is not modelled, and a policy denies some of it"
        about = [key for wanted in conditions.values() for key in wanted if "ResourceTag/" in key]
        assert not about, f"what {action} is about is not modelled, and a policy asks for its tags"
    return all(_holds(test, key, values, has) for test, wanted in conditions.items() for key, values in wanted.items())


def _about(statement: Mapping[str, Any], action: str) -> bool:
    if "NotAction" in statement:
        return not _any(_list(statement["NotAction"]), action.lower(), lower=True)
    return _any(_list(statement["Action"]), action.lower(), lower=True)


def missing(policies: Iterable[Policy], action: str, has: Context) -> list[str]:
    """MissingContextValues of a simulation: keys that statements about the action ask for, and nobody gave."""
    asked = {
        key
        for policy in policies
        for statement in policy["Statement"]
        if _about(statement, action)
        for wanted in statement.get("Condition", {}).values()
        for key in wanted
    }
    return sorted(asked - set(has))


def _operator(test: str) -> tuple[str, str, bool]:
    """(quantifier, operator, whether a missing key will do)."""
    quantifier, _, rest = test.rpartition(":")
    if_exists = rest.endswith("IfExists")
    name = rest.removesuffix("IfExists")
    assert quantifier in ("", "ForAnyValue", "ForAllValues"), f"condition {test} is not modelled"
    assert name in {*_TESTS, "Null"}, f"condition {test} is not modelled"
    return quantifier, name, if_exists


def _holds(test: str, key: str, values: Any, has: Context) -> bool:
    quantifier, name, if_exists = _operator(test)
    wanted = _list(values)
    if name == "Null":
        return (key not in has) == (wanted == ["true"])
    negated, compare = _TESTS[name]
    if key not in has:
        return if_exists or negated or quantifier == "ForAllValues"
    hits = [any(compare(value, pattern) for pattern in wanted) != negated for value in has[key]]
    return all(hits) if quantifier == "ForAllValues" else any(hits)


def _like(value: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(value, pattern.replace("[", "[[]"))


def _arn_like(value: str, pattern: str) -> bool:
    """Each of the six parts on its own: a `*` does not reach over a colon."""
    parts, patterns = value.split(":", 5), pattern.split(":", 5)
    return len(parts) == len(patterns) and all(map(_like, parts, patterns))


def _same(value: str, wanted: str) -> bool:
    return value == wanted


def _bool(value: str, wanted: str) -> bool:
    return value.lower() == wanted.lower()


# Operator → (whether it is a negation, how a value is compared).
_TESTS = {
    "ArnEquals": (False, _arn_like),
    "ArnLike": (False, _arn_like),
    "ArnNotEquals": (True, _arn_like),
    "ArnNotLike": (True, _arn_like),
    "Bool": (False, _bool),
    "StringEquals": (False, _same),
    "StringLike": (False, _like),
    "StringNotEquals": (True, _same),
    "StringNotLike": (True, _like),
}


def _any(patterns: list[str], value: str, lower: bool = False) -> bool:
    return any(_like(value, pattern.lower() if lower else pattern) for pattern in patterns)


def _list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
