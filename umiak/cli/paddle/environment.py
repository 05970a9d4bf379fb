"""Which v1 is meant where a script does not say so: UMIAK_PADDLE_VERSION."""

from __future__ import annotations

import os

from umiak.errors import InputError
from umiak.spec.settings import PADDLE_VERSIONS

VARIABLE = "UMIAK_PADDLE_VERSION"


def paddle_version(given: str = "") -> str:
    """What the flag says, else the environment; empty if neither does."""
    found = given or os.environ.get(VARIABLE, "")
    if found and found not in PADDLE_VERSIONS:
        raise InputError(f"{VARIABLE}={found} is unknown; write one of {', '.join(PADDLE_VERSIONS)}")
    return found
