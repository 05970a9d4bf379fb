"""Who has credentials here, and what IAM would say to them.

A policy's actions, effects and conditions are evaluated, and its resources where a request names them (the simulation does,
a plain call does not). Everything else in a policy is refused when it is attached, not ignored.
"""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

ACCOUNT = "123456789012"
ADMIN = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
_STATEMENT = {"Sid", "Effect", "Action", "Resource", "Condition"}


@dataclass
class Person:
    """A user, or a session of a role: `arn` is what STS says, `principal` what IAM calls it."""

    arn: str
    principal: str
    key_id: str
    policies: list[dict[str, Any]] = field(default_factory=list)
    expired: bool = False

    def attach(self, policy: dict[str, Any]) -> None:
        for statement in policy["Statement"]:
            unknown = set(statement) - _STATEMENT
            assert not unknown, f"policy elements that are not modelled: {unknown}"
        self.policies.append(policy)

    def deny(self, *actions: str) -> None:
        self.attach({"Statement": [{"Effect": "Deny", "Action": list(actions), "Resource": "*"}]})

    def decides(self, action: str, resource: str | None, context: Mapping[str, str]) -> str:
        """IAM's own words: allowed, explicitDeny or implicitDeny."""
        effects = {
            statement["Effect"]
            for policy in self.policies
            for statement in policy["Statement"]
            if _matches(statement, action, resource, context)
        }
        return "explicitDeny" if "Deny" in effects else "allowed" if "Allow" in effects else "implicitDeny"

    @property
    def environment(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": self.key_id, "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token"}


class People:
    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.by_key: dict[str, Person] = {}
        self.admin = self.role("Admin", ADMIN)

    def role(self, name: str, *policies: dict[str, Any], path: str = "/") -> Person:
        arn = f"arn:aws:sts::{ACCOUNT}:assumed-role/{name}/session"
        return self._add(arn, f"arn:aws:iam::{ACCOUNT}:role{path}{name}", policies)

    def user(self, name: str, *policies: dict[str, Any]) -> Person:
        arn = f"arn:aws:iam::{ACCOUNT}:user/{name}"
        return self._add(arn, arn, policies)

    def root(self) -> Person:
        arn = f"arn:aws:iam::{ACCOUNT}:root"
        return self._add(arn, arn, (ADMIN,))

    def principal(self, arn: str) -> Person | None:
        return next((person for person in self.by_key.values() if person.principal == arn), None)

    def role_named(self, name: str) -> Person | None:
        return next(
            (p for p in self.by_key.values() if ":role/" in p.principal and p.principal.endswith(f"/{name}")), None
        )

    def _add(self, arn: str, principal: str, policies: Iterable[dict[str, Any]]) -> Person:
        person = Person(arn, principal, f"ASIAFAKE{next(self._numbers):012d}")
        for policy in policies:
            person.attach(policy)
        self.by_key[person.key_id] = person
        return person


def _matches(statement: Mapping[str, Any], action: str, resource: str | None, context: Mapping[str, str]) -> bool:
    if not _any(_list(statement["Action"]), action):
        return False
    if resource is not None and not _any(_list(statement["Resource"]), resource):
        return False
    for test, wanted in statement.get("Condition", {}).items():
        assert test == "StringEquals", f"condition {test} is not modelled"
        for key, values in wanted.items():
            # A call does not say everything a condition may ask for; what it says must fit.
            if key in context and context[key] not in _list(values):
                return False
            if key not in context and resource is not None:
                return False
    return True


def _any(patterns: list[str], value: str) -> bool:
    return any(fnmatch.fnmatchcase(value.lower(), pattern.lower()) for pattern in patterns)


def _list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
