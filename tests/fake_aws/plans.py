"""What a change set says: resources that are new, that change and whether that replaces them, and that go."""

from __future__ import annotations

from typing import Any

from tests.fake_aws import changing, templates
from tests.fake_aws.operations import Stack


def changes(
    resolver: templates.Resolver, stack: Stack, template: dict[str, Any], values: dict[str, str]
) -> list[dict[str, Any]]:
    """As a change set tells them: what is new, what changes and whether that replaces it, what goes."""
    changes = []
    declared = template["Resources"]
    touched: set[str] = set()
    resolver.known |= values
    order = sorted(declared, key=lambda title: _depth(title, templates.dependencies(declared)))
    for title in order:
        body, made = declared[title], stack.made.get(title)
        entry = {"LogicalResourceId": title, "ResourceType": body["Type"]}
        if made is None:
            changes.append(entry | {"Action": "Add"})
            continue
        indirect = bool(templates.mentioned(body.get("Properties", {})) & touched)
        if body == made.body and not indirect:
            continue
        # Something new is not there to be resolved yet; then only the text can be compared.
        known = templates.mentioned(body.get("Properties", {})) <= {*stack.made, *values}
        new = resolver.value(body.get("Properties", {})) if known else body.get("Properties", {})
        replaced = new != made.properties and changing.replaces(made.kind, made.properties, new)
        if new != made.properties:
            touched.add(title)
        details = [] if replaced else _dynamic(body, touched - {title}, made.kind)
        changes.append(
            entry
            | {
                "Action": "Modify",
                "PhysicalResourceId": made.physical,
                "Replacement": "True" if replaced else "Conditional" if details else "False",
                "Details": details,
                "Scope": ["Properties"] if new != made.properties or indirect else ["Metadata"],
            }
        )
    for title, made in stack.made.items():
        if title not in declared:
            changes.append(
                {
                    "LogicalResourceId": title,
                    "ResourceType": made.kind,
                    "Action": "Remove",
                    "PhysicalResourceId": made.physical,
                }
            )
    return changes


def _dynamic(body: dict[str, Any], touched: set[str], kind: str) -> list[dict[str, Any]]:
    """Properties that cannot change in place and take an attribute of something that changes (API reference of
    ResourceChangeDetail): before the execution CloudFormation cannot say whether they do."""
    return [
        {
            "Target": {"Attribute": "Properties", "Name": name, "RequiresRecreation": "Always"},
            "Evaluation": "Dynamic",
            "ChangeSource": "ResourceAttribute",
            "CausingEntity": f"{title}.Arn",
        }
        for name, value in body.get("Properties", {}).items()
        if not changing.in_place(kind, name)
        for title in sorted(templates.mentioned(value) & touched)
    ]


def _depth(title: str, waits: dict[str, set[str]]) -> int:
    return 1 + max((_depth(name, waits) for name in waits[title]), default=0)
