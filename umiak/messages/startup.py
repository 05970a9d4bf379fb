"""A parameter server's first word to whoever started it: that it listens, or why it cannot."""

from __future__ import annotations

import json

from umiak.errors import UmiakError, describe, described


class Listening:
    """Trainers may connect."""


def encode(answer: Listening | UmiakError) -> str:
    return json.dumps({"ready": True} if isinstance(answer, Listening) else describe(answer))


def decode(line: bytes) -> Listening | UmiakError:
    value = json.loads(line)
    return Listening() if value.get("ready") else described(value)
