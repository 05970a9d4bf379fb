"""Hides what looks like a password, a token or a key in text that others may see."""

from __future__ import annotations

import re

HIDDEN = "•••"
_NAME = r"[\w.-]*(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential)[\w.-]*"
_NAMED = re.compile(rf"(?i)({_NAME}[\"']?\s*[=:]\s*)(\"[^\"\n]*\"|'[^'\n]*'|[^\s,;&)\]}}]+)")
_RULES = (
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?=@)", re.I), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)(\b(?:bearer|basic)\s+)[\w.~+/=-]{8,}"), rf"\1{HIDDEN}"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), HIDDEN),
    (re.compile(r"\b(?:ghp|gho|hf|sk|xoxb)[_-][A-Za-z0-9_-]{16,}"), HIDDEN),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S), HIDDEN),
    (_NAMED, rf"\1{HIDDEN}"),
)


def masked(text: str, name: str = "") -> str:
    """`name` is what the text is the value of, if it is one."""
    if name and re.fullmatch(f"(?i){_NAME}", name):
        return HIDDEN
    for pattern, shown in _RULES:
        text = pattern.sub(shown, text)
    return text
