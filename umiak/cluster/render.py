"""The assets of a cluster as files: the template, the policies, the manifests and a summary. Offline and deterministic."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from umiak.cluster import boundary, manifests, policy, template
from umiak.cluster.display import summary
from umiak.cluster.display.summary import MANIFESTS, TEMPLATE, policy_file
from umiak.errors import InputError
from umiak.spec.cluster import ClusterSpec

SUMMARY = "summary.md"


def files(spec: ClusterSpec) -> dict[str, str]:
    """Name of each asset → its text."""
    built = template.build(spec)
    policies = policy.documents(spec, template.types(built))
    assets = {TEMPLATE: template.text(spec), MANIFESTS: manifests.text()}
    assets |= {boundary.FILE: boundary.text(spec)}
    assets |= {policy_file(name): policy.text(statements) for name, statements in policies.items()}
    return assets | {SUMMARY: summary.text(spec, built, policies)}


def write(assets: Mapping[str, str], directory: Path) -> list[Path]:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in assets.items():
            (directory / name).write_text(content, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot write to {directory}: {error.strerror}; choose another directory with --out"
        ) from error
    return [directory / name for name in assets]
