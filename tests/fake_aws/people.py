"""Who has credentials here, and the policies that they hold."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fake_aws import evaluation

ACCOUNT = "123456789012"
ADMIN = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}


@dataclass
class Person:
    """A user, or a session of a role: `arn` is what STS says, `principal` what IAM calls it."""

    arn: str
    principal: str
    key_id: str
    policies: list[dict[str, Any]] = field(default_factory=list)
    expired: bool = False
    # Whether the session was opened with a second factor; None for long-lived keys, whose requests do not say.
    mfa: bool | None = None
    # The permissions boundary, if there is one.
    boundary: dict[str, Any] | None = None

    def attach(self, policy: dict[str, Any]) -> None:
        evaluation.check(policy)
        self.policies.append(policy)

    def deny(self, *actions: str) -> None:
        self.attach({"Statement": [{"Effect": "Deny", "Action": list(actions), "Resource": "*"}]})

    def decides(self, action: str, resource: str | None, has: Mapping[str, list[str]]) -> str:
        """IAM's own words: allowed, explicitDeny or implicitDeny."""
        return evaluation.decide(self.policies, self.boundary, action, resource, has)

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
