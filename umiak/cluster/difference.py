"""Two templates side by side: what a new one adds, changes and removes. Pure; what AWS makes of it, its change set says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Action = Literal["add", "change", "remove"]
# Parts of a template that make no resource different. A policy of deletion is one that matters, a comment is not.
_PARTS = ("Properties", "DeletionPolicy", "UpdateReplacePolicy", "DependsOn", "Metadata")


@dataclass(frozen=True)
class Change:
    title: str
    kind: str
    action: Action
    # (where, before, after), for what is changed.
    details: tuple[tuple[str, Any, Any], ...] = ()
    # AWS would make a new one and remove the old.
    replaced: bool = False


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    before, after = old["Resources"], new["Resources"]
    found = []
    for title, resource in after.items():
        if title not in before:
            found.append(Change(title, resource["Type"], "add"))
        elif details := tuple(_details(before[title], resource)):
            found.append(Change(title, resource["Type"], "change", details))
    found += [Change(title, before[title]["Type"], "remove") for title in before if title not in after]
    return found


def _details(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for part in _PARTS:
        yield from _leaves("" if part == "Properties" else part, old.get(part), new.get(part))


def _leaves(where: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _leaves(f"{where}.{key}".lstrip("."), old.get(key), new.get(key))
    else:
        yield where, old, new
