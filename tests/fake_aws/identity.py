"""STS and the parts of IAM that are about people: who am I, which role is that, what may it do."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from moto.iam.aws_managed_policies import aws_managed_policies_data
from moto.iam.models import iam_backends

from tests.fake_aws import evaluation
from tests.fake_aws.calls import AwsFault, Call
from tests.fake_aws.people import ACCOUNT, Person
from tests.fake_aws.questions import role_named

if TYPE_CHECKING:
    from tests.fake_aws.server import FakeAws

PAGE = 30


class Identity:
    def __init__(self, fake: FakeAws) -> None:
        self.fake = fake
        # The code that a second factor shows now; none: no role wants one.
        self.code = ""
        # Name of a role → the policies of AWS's that are attached to it.
        self.attached: dict[str, set[str]] = {}

    def handlers(self) -> dict[tuple[str, str], Callable[[Call], Any]]:
        return {
            ("sts", "AssumeRole"): self.assume,
            ("sts", "GetCallerIdentity"): self.who,
            ("iam", "AttachRolePolicy"): self.attach,
            ("iam", "DetachRolePolicy"): self.detach,
            ("iam", "GetRole"): self.role,
            ("iam", "SimulatePrincipalPolicy"): self.simulate,
        }

    def who(self, call: Call) -> dict[str, str]:
        return {"Account": ACCOUNT, "UserId": call.key_id, "Arn": self.fake.people.by_key[call.key_id].arn}

    def assume(self, call: Call) -> dict[str, Any]:
        """A session of a role that trusts this account, and wants a second factor where one is arranged."""
        name = call.params["RoleArn"].rpartition("/")[2]
        person = self.fake.people.role_named(name)
        if person is None:
            raise AwsFault("AccessDenied", f"not authorized to perform: sts:AssumeRole on {call.params['RoleArn']}")
        if self.code and call.params.get("TokenCode") != self.code:
            raise AwsFault("AccessDenied", "MultiFactorAuthentication failed with invalid MFA one time pass code.")
        person.mfa = bool(self.code)
        return {
            "Credentials": {
                "AccessKeyId": person.key_id,
                "SecretAccessKey": "secret",
                "SessionToken": "token",
                "Expiration": datetime.now(UTC).replace(tzinfo=None, microsecond=0) + timedelta(hours=1),
            },
            "AssumedRoleUser": {"AssumedRoleId": f"AROAFAKE:{name}", "Arn": person.arn},
        }

    def role(self, call: Call) -> dict[str, Any]:
        """A role that somebody here assumed, or one that was created."""
        name = call.params["RoleName"]
        person = self.fake.people.role_named(name)
        if person:
            arn, path = person.principal, person.principal.split(":role")[1].removesuffix(name)
        else:
            made = role_named(name)
            if made is None:
                raise AwsFault("NoSuchEntity", f"The role with name {name} cannot be found.")
            arn, path = made.arn, made.path
        now = datetime.now(UTC).replace(tzinfo=None)
        return {"Role": {"Arn": arn, "RoleName": name, "Path": path, "RoleId": "AROAFAKE", "CreateDate": now}}

    def simulate(self, call: Call) -> dict[str, Any]:
        known = {"PolicySourceArn", "ActionNames", "ResourceArns", "ContextEntries", "MaxItems", "Marker"}
        assert set(call.params) <= known, f"simulation: not modelled: {set(call.params) - known}"
        arn = call.params["PolicySourceArn"]
        person = self.fake.people.principal(arn)
        if person is None or arn.endswith(":root"):
            raise AwsFault("NoSuchEntity", f"{arn} cannot be found.")
        context = {
            entry["ContextKeyName"]: entry["ContextKeyValues"] for entry in call.params.get("ContextEntries", [])
        }
        results = []
        for action in call.params["ActionNames"]:
            resources = call.params.get("ResourceArns") or ["*"]
            decisions = [person.decides(action, resource, context) for resource in resources]
            result: dict[str, Any] = {
                "EvalActionName": action,
                "EvalDecision": max(decisions),
                "EvalResourceName": resources[0],
                "MissingContextValues": evaluation.missing(person.policies, action, context),
            }
            if resources != ["*"]:
                result["ResourceSpecificResults"] = [
                    {"EvalResourceName": resource, "EvalResourceDecision": decision}
                    for resource, decision in zip(resources, decisions, strict=True)
                ]
            results.append(result)
        # In short pages, so that a caller that reads only the first is found out.
        first = int(call.params.get("Marker") or 0)
        last = first + PAGE
        more = last < len(results)
        return {"EvaluationResults": results[first:last], "IsTruncated": more} | ({"Marker": str(last)} if more else {})

    def attach(self, call: Call) -> dict[str, Any]:
        """Only policies that AWS has: a misspelt one must not go unnoticed."""
        if call.params["PolicyArn"] not in _managed_policies():
            raise AwsFault("NoSuchEntity", f"Policy {call.params['PolicyArn']} does not exist or is not attachable.")
        self.attached.setdefault(call.params["RoleName"], set()).add(call.params["PolicyArn"])
        return {}

    def detach(self, call: Call) -> dict[str, Any]:
        self.attached.get(call.params["RoleName"], set()).discard(call.params["PolicyArn"])
        return {}

    def guards(self) -> dict[tuple[str, str], Callable[[Call], None]]:
        """Looked at before moto answers."""
        return {
            ("iam", "CreateRole"): self.bounded,
            ("iam", "PutRolePermissionsBoundary"): self.bounded,
            ("iam", "DeletePolicy"): self.unused,
        }

    def bounded(self, call: Call) -> None:
        """IAM API reference, CreateRole: a boundary must exist."""
        arn = call.params.get("PermissionsBoundary")
        if arn and arn not in _iam().managed_policies:
            raise AwsFault("NoSuchEntity", f"Scope ARN: {arn} does not exist or is not attachable.")

    def unused(self, call: Call) -> None:
        """IAM API reference, DeletePolicy: DeleteConflict while it is attached to anything."""
        if any(role.permissions_boundary_arn == call.params["PolicyArn"] for role in _iam().roles.values()):
            raise AwsFault("DeleteConflict", "Cannot delete a policy attached to entities.")

    def become(self, name: str) -> Person:
        """A session of a role that was created here: its policies, and its boundary."""
        role = role_named(name)
        managed = _managed_policies()
        person = self.fake.people.role(
            name,
            *(json.loads(body) for body in role.policies.values()),
            *(managed[arn] for arn in self.attached.get(name, ())),
        )
        if role.permissions_boundary_arn:
            bound = _iam().managed_policies[role.permissions_boundary_arn]
            person.boundary = json.loads(next(v.document for v in bound.versions if v.is_default))
        return person


def _iam() -> Any:
    return iam_backends[ACCOUNT]["aws"]


@cache
def _managed_policies() -> dict[str, dict[str, Any]]:
    policies = json.loads(aws_managed_policies_data)
    return {f"arn:aws:iam::aws:policy{entry['Path']}{name}": entry["Document"] for name, entry in policies.items()}
