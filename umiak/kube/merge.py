"""A PodSpec fragment merged into a PodSpec, by Kubernetes' own idea of it: lists of named things are merged by that name."""

from __future__ import annotations

from typing import Any

# List → what tells its items apart. Other lists are replaced.
KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
    "ports": "containerPort",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
# To tolerate one more thing is not to tolerate another less.
ADDED = ("tolerations",)


def merged(base: Any, fragment: Any, name: str = "") -> Any:
    """`base` with the fragment's values; null removes. Neither is changed."""
    if isinstance(base, dict) and isinstance(fragment, dict):
        result = dict(base)
        for key, value in fragment.items():
            if value is None:
                result.pop(key, None)
            else:
                result[key] = merged(base.get(key), value, key)
        return result
    if isinstance(base, list) and isinstance(fragment, list):
        if name in ADDED:
            return base + fragment
        if name in KEYS:
            return _by_key(base, fragment, KEYS[name])
    return fragment


def _by_key(base: list[Any], fragment: list[Any], key: str) -> list[Any]:
    result = list(base)
    places = {item.get(key): place for place, item in enumerate(base)}
    for item in fragment:
        if item.get(key) in places:
            place = places[item.get(key)]
            # A variable has a value or a source; the new one replaces both.
            result[place] = item if "valueFrom" in {**result[place], **item} else merged(result[place], item)
        else:
            result.append(item)
    return result
