"""What a run was started with, as name and value: its flags, and each argument of its config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from umiak.spec.flags import pairs


def parameters(about: Mapping[str, Any]) -> dict[str, str]:
    """`about` is the content of OUT/run.json."""
    flags = {str(name): str(value) for name, value in dict(about.get("flags", {})).items()}
    arguments = pairs(flags.pop("config_args", ""))
    known = {name: str(about[name]) for name in ("seed", "workers") if name in about}
    return {**flags, **known, **arguments}
