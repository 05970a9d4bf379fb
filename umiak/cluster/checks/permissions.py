"""May these credentials do it: IAM itself simulates every action of our policies, on the resources they name."""

from __future__ import annotations

from typing import Any

from umiak.cluster import policy, template
from umiak.cluster.aws import AwsError, DeniedError
from umiak.cluster.checks.finding import Context, Finding
from umiak.cluster.policy import Statement

SHOWN = 6


def check(context: Context) -> list[Finding]:
    principal = context.caller.principal
    if principal is None:
        return [
            Finding(
                "info", "permissions", f"not checked: IAM cannot simulate {context.caller.arn}, only roles and users"
            )
        ]
    documents = policy.documents(context.spec, template.types(template.build(context.spec)))
    found = []
    for name, statements in documents.items():
        try:
            denied = sorted(action for item in statements for action in _denied(context, principal, item))
        except DeniedError as error:
            return [
                Finding(
                    "warning",
                    "permissions",
                    f"not checked: these credentials may not do {error.action}, so what else they may do is not known",
                    "allow iam:SimulatePrincipalPolicy (it is in policy-plan.json), or go on and see",
                )
            ]
        except AwsError as error:
            if error.code != "NoSuchEntity":
                raise
            return [Finding("warning", "permissions", f"not checked: IAM does not find {principal}", "go on and see")]
        if denied:
            more = f" and {len(denied) - SHOWN} more" if len(denied) > SHOWN else ""
            found.append(
                Finding(
                    # Who makes a cluster need not be who works with it.
                    "warning" if name == "use" else "error",
                    "permissions",
                    f"as IAM simulates it, {principal} may not do {', '.join(denied[:SHOWN])}{more}",
                    f"attach policy-{name}.json, which `umiak cluster render` writes"
                    + ("" if name in ("use", "plan") else ", or have an administrator deploy template.yaml"),
                )
            )
    return found or [Finding("info", "permissions", f"{principal} may do everything that is needed")]


def _denied(context: Context, principal: str, statement: Statement) -> list[str]:
    optional: dict[str, Any] = {}
    if statement.resources != ("*",):
        optional["ResourceArns"] = [
            sample(arn, context.spec.region, context.caller.account) for arn in statement.resources
        ]
    if statement.conditions:
        optional["ContextEntries"] = [
            {"ContextKeyName": key, "ContextKeyType": "string", "ContextKeyValues": [_one(value)]}
            for test in statement.conditions.values()
            for key, value in test.items()
        ]
    results = context.aws.pages(
        "iam",
        "SimulatePrincipalPolicy",
        "EvaluationResults",
        PolicySourceArn=principal,
        ActionNames=list(statement.actions),
        **optional,
    )
    return sorted({result["EvalActionName"] for result in results if not _allowed(result)})


def _allowed(result: dict[str, Any]) -> bool:
    """On any of the resources: an action is about one kind, and the others of its statement say nothing about it."""
    specific = result.get("ResourceSpecificResults") or []
    decisions = [entry["EvalResourceDecision"] for entry in specific] or [result["EvalDecision"]]
    return "allowed" in decisions


def sample(arn: str, region: str, account: str) -> str:
    """A concrete resource that a pattern matches; IAM simulates resources, not patterns."""
    head = arn.split(":", 5)
    head[3] = region if head[3] == "*" else head[3]
    head[4] = account if head[4] == "*" else head[4]
    return ":".join(head).replace("*", "umiak")


def _one(value: Any) -> str:
    return value[0] if isinstance(value, list) else value
