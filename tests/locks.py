"""Whether the lock files have what pyproject.toml asks for, in a version it allows: `python -m tests.locks`. No network."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
# Each lock and the extras it holds (see `make lock`); None for all of them.
LOCKS = {
    "requirements.lock": None,
    "umiak/image/runtime.lock": ("paddle", "parquet", "plot", "s3", "tensorboard", "tls"),
}


def pinned(text: str) -> dict[str, str]:
    return {
        canonicalize_name(name): version
        for name, version in re.findall(r"^([\w.-]+)(?:\[[^]]*])?==([^\s;]+)", text, re.M)
    }


def differences(project: dict[str, object], extras: tuple[str, ...] | None, lock: str) -> list[str]:
    optional: dict[str, list[str]] = project.get("optional-dependencies", {})  # type: ignore[assignment]
    wanted: list[str] = list(project["dependencies"])  # type: ignore[call-overload]
    for extra in optional if extras is None else extras:
        wanted += optional[extra]
    versions, found = pinned(lock), []
    for each in map(Requirement, wanted):
        if each.name == "umiak" or (each.marker and not each.marker.evaluate()):
            continue
        version = versions.get(canonicalize_name(each.name))
        if version is None:
            found.append(f"{each.name} is not in it")
        elif not each.specifier.contains(version, prereleases=True):
            found.append(f"{each.name} is {version}, but pyproject.toml wants {each.specifier}")
    return found


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = [
        f"{name}: {line}; run make lock"
        for name, extras in LOCKS.items()
        for line in differences(project, extras, (ROOT / name).read_text())
    ]
    print(*found, sep="\n", end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
