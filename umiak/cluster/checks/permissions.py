"""May these credentials do it: IAM itself simulates every action of our policies, on the resources they name."""

from __future__ import annotations

from typing import Any

from umiak.cluster import boundary, policy, template
from umiak.cluster.aws import AwsError, DeniedError
from umiak.cluster.checks.finding import Context, Finding
from umiak.cluster.policy import Statement
from umiak.cluster.template.roles import boundary_name

SHOWN = 6


# Asked about in the region where their service answers.
AT_HOME = ("iam:", "pricing:", "sts:")
# What every request of ours carries. Whether a second factor was used is not to be seen from here: see `_needs_factor`.
USUAL = {"aws:MultiFactorAuthPresent": ("boolean", "true"), "aws:SecureTransport": ("boolean", "true")}
# An action that everybody needs, to find out what a second factor changes.
PROBE = "ec2:DescribeVpcs"


def check(context: Context) -> list[Finding]:
    principal = context.caller.principal
    if principal is None:
        return [
            Finding(
                "info", "permissions", f"not checked: IAM cannot simulate {context.caller.arn}, only roles and users"
            )
        ]
    documents = policy.documents(context.spec, template.types(template.build(context.spec)))
    found: list[Finding] = []
    try:
        for name, statements in documents.items():
            found += _of_document(context, principal, name, statements)
        if not found and _needs_factor(context, principal):
            found.append(
                Finding(
                    "warning",
                    "permissions",
                    f"{principal} may do this only with a second factor (MFA), and whether this session has one is not known",
                    "if AWS refuses, sign in with a code: a profile with mfa_serial, or `aws sts get-session-token`",
                )
            )
    except DeniedError as error:
        return [
            Finding(
                "warning",
                "permissions",
                f"not checked: these credentials are not allowed to do {error.action}, so it is not known what else they may do",
                "allow iam:SimulatePrincipalPolicy (it is in policy-plan.json), or continue and see",
            )
        ]
    except AwsError as error:
        if error.code != "NoSuchEntity":
            raise
        return [Finding("warning", "permissions", f"not checked: IAM does not find {principal}", "continue and see")]
    return found or [Finding("info", "permissions", f"{principal} is allowed to do everything that is needed")]


def _of_document(context: Context, principal: str, name: str, statements: tuple[Statement, ...]) -> list[Finding]:
    """Denied for certain, and denied as far as a simulation can see: IAM says which keys it would have had to know."""
    denied: dict[str, set[str]] = {}
    for item in statements:
        if item.effect == "Allow":
            for action, missing in _denied(context, principal, item).items():
                denied[action] = denied.get(action, missing) & missing
    fix = f"attach policy-{name}.json, which `umiak cluster render` writes"
    fix += "" if name in ("use", "plan") else ", or have an administrator deploy template.yaml"
    certain = sorted(action for action, missing in denied.items() if not missing)
    perhaps = sorted(action for action, missing in denied.items() if missing)
    found = []
    if certain:
        text = f"as IAM simulates it, {principal} is not allowed to do {_listed(certain)}"
        # Who makes a cluster need not be who works with it.
        found.append(Finding("warning" if name == "use" else "error", "permissions", text, fix))
    if perhaps:
        keys = ", ".join(sorted(set().union(*(denied[action] for action in perhaps))))
        text = f"{principal} is not allowed to do {_listed(perhaps)}, unless what the simulation does not know allows it ({keys})"
        found.append(Finding("warning", "permissions", text, f"continue and see; if AWS refuses, {fix}"))
    return found


def _listed(actions: list[str]) -> str:
    more = f" and {len(actions) - SHOWN} more" if len(actions) > SHOWN else ""
    return ", ".join(actions[:SHOWN]) + more


def _needs_factor(context: Context, principal: str) -> bool:
    without = USUAL | {"aws:MultiFactorAuthPresent": ("boolean", "false")}
    results = _simulated(context, principal, (PROBE,), (), _entries(context.spec.region, {}, without))
    return not all(_allowed(result) for result in results)


def bounded(context: Context) -> list[Finding]:
    """The boundary of the roles: there, and as this version renders it?"""
    spec = context.spec
    name, found = boundary_name(spec.name, spec.region), boundary.look(context.aws, spec, context.caller.account)
    if found is None:
        text = (
            f"the policy {name} is not there yet: `umiak cluster up` creates it, or says what an administrator must run"
        )
        return [Finding("info", "boundary", text)]
    if not boundary.is_current(spec, found["document"]):
        return [
            Finding(
                "warning",
                "boundary",
                f"the policy {name} is not what this version renders, so a role may be refused what it needs",
                f"an administrator compares it with {boundary.FILE}, which `umiak cluster render` writes, and renews it: "
                f"aws iam create-policy-version --set-as-default --policy-arn {found['arn']} "
                f"--policy-document file://{boundary.FILE}",
            )
        ]
    return [Finding("info", "boundary", f"the policy {name} is there")]


def _denied(context: Context, principal: str, statement: Statement) -> dict[str, set[str]]:
    """Action → the condition keys that IAM lacked when it said no."""
    home = tuple(action for action in statement.actions if action.startswith(AT_HOME))
    denied = {}
    for region, actions in ((context.aws.home, home), (context.spec.region, statement.actions)):
        asked = tuple(action for action in actions if (action in home) == (actions is home))
        if not asked:
            continue
        entries = _entries(region, statement.conditions, USUAL)
        for result in _simulated(context, principal, asked, statement.resources, entries):
            if not _allowed(result):
                denied[result["EvalActionName"]] = _missing(result)
    return denied


def _entries(
    region: str, conditions: dict[str, dict[str, Any]], usual: dict[str, tuple[str, str]]
) -> list[dict[str, Any]]:
    """What a real request would say: where it goes, how, and what the statement's own conditions ask for."""
    said = {"aws:RequestedRegion": ("string", region), **usual}
    # What must be absent from a request is not said.
    asked = [entry for test, wanted in conditions.items() if test != "Null" for entry in wanted.items()]
    said |= {key: ("string", _one(value)) for key, value in asked}
    return [
        {"ContextKeyName": key, "ContextKeyType": kind, "ContextKeyValues": [value]}
        for key, (kind, value) in said.items()
    ]


def _simulated(
    context: Context,
    principal: str,
    actions: tuple[str, ...],
    resources: tuple[str, ...],
    entries: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    optional: dict[str, Any] = {}
    if resources not in ((), ("*",)):
        optional["ResourceArns"] = [sample(arn, context.spec.region, context.caller.account) for arn in resources]
    for entry in entries:
        entry["ContextKeyValues"] = [
            sample(value, context.spec.region, context.caller.account) if value.startswith("arn:") else value
            for value in entry["ContextKeyValues"]
        ]
    return context.aws.pages(
        "iam",
        "SimulatePrincipalPolicy",
        "EvaluationResults",
        PolicySourceArn=principal,
        ActionNames=list(actions),
        ContextEntries=entries,
        **optional,
    )


def _missing(result: dict[str, Any]) -> set[str]:
    specific = result.get("ResourceSpecificResults") or []
    return set(result.get("MissingContextValues", [])).union(
        *(entry.get("MissingContextValues", []) for entry in specific)
    )


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
