"""What --log-to names, checked before training begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from umiak.errors import InputError
from umiak.extras import MissingExtraError, install, missing

EXAMPLES = {"mlflow": "mlflow:http://localhost:5000", "wandb": "wandb:my-project"}


class Target(NamedTuple):
    kind: str
    place: str
    """MLflow's tracking URI, or a project of Weights & Biases: PROJECT or ENTITY/PROJECT."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.place}"


def targets(words: Sequence[str]) -> list[Target]:
    found = [_target(word) for word in words]
    if len(set(found)) < len(found):
        raise InputError(f"--log-to {','.join(words)} names a place twice; name it once")
    return found


def _target(word: str) -> Target:
    kind, _, place = word.partition(":")
    if kind not in EXAMPLES or not place:
        raise InputError(f"--log-to {word} names no place for metrics; write {' or '.join(EXAMPLES.values())}")
    if missing(kind):
        raise MissingExtraError(f"--log-to {kind}:… needs {', '.join(missing(kind))}: {install(kind)}")
    if kind == "mlflow" and urlsplit(place).password:
        raise InputError(
            "--log-to mlflow:… holds a password, which others could read; "
            "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD instead"
        )
    return Target(kind, place)
