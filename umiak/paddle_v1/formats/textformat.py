"""Messages (messages.py) in the text format of Protocol Buffers, with numbers as Python 2 wrote them. Knows no layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from umiak.paddle_v1.formats.messages import FIELDS, Message

_ESCAPED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "'": "\\'", "\\": "\\\\"}


def text(message: Message, kind: str) -> str:
    return "".join(f"{line}\n" for line in _lines(message, kind))


def _lines(message: Message, kind: str) -> Iterator[str]:
    for name, value in message:
        own = FIELDS[kind][name][1]
        if own in FIELDS:
            yield f"{name} {{"
            yield from (f"  {line}" for line in _lines(value, own))
            yield "}"
        else:
            yield f"{name}: {_scalar(value, own)}"


def _scalar(value: Any, kind: str) -> str:
    if kind == "bool":
        return "true" if value else "false"
    if kind == "string":
        return '"' + "".join(map(_character, value)) + '"'
    if isinstance(value, int):
        # A whole number in the config stays one, also where the field is a double.
        return str(int(value))
    written = f"{value:.12g}"
    return written if set(written) & set(".en") else f"{written}.0"


def _character(character: str) -> str:
    """Strings of v1 are bytes: ours hold one in each character."""
    if character in _ESCAPED:
        return _ESCAPED[character]
    return character if " " <= character <= "~" else f"\\{ord(character) & 0xFF:03o}"
